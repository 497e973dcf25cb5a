"""Names of operators of which onnx has no schemas: those that old or failed exports carry, and those of ONNX Runtime."""

from __future__ import annotations

EXPERIMENTAL = frozenset(
    {
        "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
        "ParametricSoftplus", "Scale", "ScaledTanh",
    }
)  # fmt: skip
"""Operators that ONNX 1.0 to 1.4 called experimental and then dropped from the registry; old exports still carry them."""

FOREIGN = frozenset(
    {
        "Bucketize", "ComplexAbs", "CumulativeLogsumexp", "Cumprod", "Cumsum",
        "Dilation2D", "Erfc", "EuclideanNorm", "Expm1", "GatherV2", "Invert", "IsFinite", "L2Loss", "LeftShift", "Lgamma",
        "Log1p", "LowerBound", "MatrixBandPart", "MatrixDeterminant", "MatrixDiagPartV3", "MatrixDiagV3", "MatrixInverse",
        "MulNoNan", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "RightShift", "Rint", "Roll",
        "ScaleAndTranslate", "ScatterNd", "SegmentMean", "SegmentSum", "StridedSlice", "TensorScatterAdd", "TensorScatterMax",
        "TensorScatterMin", "TensorScatterSub", "TruncateMod", "UnsortedSegmentMax", "UnsortedSegmentMin",
        "UnsortedSegmentProd", "UnsortedSegmentSum", "UpperBound", "Xdivy", "Xlog1py", "Xlogy",
    }
)  # fmt: skip
"""TensorFlow's operators that tf2onnx, where it cannot convert them, leaves in the graph as if they were ONNX's own."""

CONTRIB_DOMAIN = "com.microsoft"
CONTRIB_NAMES = (
    "Attention", "AttnLSTM", "BeamSearch", "BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "BiasSplitGelu",
    "BifurcationDetector", "BitmaskBiasDropout", "BitmaskDropout", "BranchwiseRMSNorm", "CDist", "CausalConvWithState",
    "ComplexMul", "ComplexMulConj", "ConvStateReplay", "ConvTransposeWithDynamicPads", "CropAndResize",
    "DecoderAttention", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "DequantizeBFP",
    "DequantizeLinear", "DequantizeWithOrder", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "DynamicSparseAttention",
    "DynamicTimeWarping", "EPContext", "EmbedLayerNormalization", "EngramGate", "ExpandDims", "FastGelu", "FusedConv",
    "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GatedAdd", "GatedDeltaNet", "GatedDeltaNetStateReplay",
    "GatedRMSNorm", "GatedRelativePositionBias", "GatherBlockQuantized", "GatherND", "GatherPacked", "Gelu",
    "GemmFastGelu", "GemmFloat8", "GemmaRotaryEmbedding", "GreedySearch", "GridSample", "GroupNorm",
    "GroupQueryAttention", "HyperConnectionLowRankMix", "HyperConnectionPostMix", "HyperConnectionPreMix", "Inverse",
    "Irfft", "IsAllFinite", "LinearAttention", "LinearAttentionGate", "LongformerAttention", "MRotaryEmbedding",
    "Mamba2Verify", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4", "MatMulFpQ4",
    "MatMulInteger16", "MatMulIntegerToFloat", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv",
    "MatMulPacked", "MaxpoolWithMask", "MoE", "MoEGroupRouter", "MoEPacked", "MulInteger", "MultiHeadAttention",
    "MurmurHash3", "NGramHashMapping", "NGramRepeatBlock", "NhwcConv", "NhwcFusedConv", "NhwcMaxPool",
    "PackedAttention", "PackedMultiHeadAttention", "PackedSparseAttentionIndexer", "PackedSparseAttentionIndexerMerge",
    "Pad", "PagedAttention", "QAttention", "QEmbedLayerNormalization", "QGemm", "QLinearAdd", "QLinearAveragePool",
    "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean",
    "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QMoE", "QOrderedAttention", "QOrderedGelu",
    "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul", "QuantizeBFP", "QuantizeLinear",
    "QuantizeWithOrder", "QuickGelu", "RMSNormRotary", "Range", "ReduceSumInteger", "RelativePositionBias",
    "RemovePadding", "RestorePadding", "Rfft", "RotaryEmbedding", "RouterGateUpProj", "SampleOp", "Sampling",
    "ScaledSiLU", "SkipGroupNorm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Snpe",
    "SparseAttention", "SparseAttentionIndexer", "SparsePagedAttention", "SparseToDenseMatMul",
    "SpeculativePrefixCommit", "SwiGLU", "Tokenizer", "TorchEmbedding", "TransposeMatMul", "Trilu", "UnfoldTensor",
    "Unique", "VarlenCausalConvWithState", "VarlenNGramHashMapping", "WhisperBeamSearch", "WordConvEmbedding",
)  # fmt: skip
"""Of ONNX Runtime 1.32, for what a misspelled one may have meant; a later one has more."""

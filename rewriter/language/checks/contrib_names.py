"""The names of ONNX Runtime's own operators, of which onnx has no schemas: what a misspelled one may have meant."""

from __future__ import annotations

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
"""As of ONNX Runtime 1.32; a later one has more."""

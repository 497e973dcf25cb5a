"""scikit-learn models with their truth: sklearn_models.py SET FOLDER COUNT SEED.

Estimators and transformers with arguments that change the graph, at several opsets, from float and double data, with and without
ZipMap, and random pipelines of them.
"""

import random
import sys
import warnings

import numpy as np
from recording import Recorder
from skl2onnx import to_onnx
from sklearn import (
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    mixture,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline, make_union

warnings.filterwarnings("ignore")

TRANSFORMERS = {
    "standard": lambda: preprocessing.StandardScaler(),
    "standard_mean": lambda: preprocessing.StandardScaler(with_std=False),
    "standard_std": lambda: preprocessing.StandardScaler(with_mean=False),
    "minmax": lambda: preprocessing.MinMaxScaler(clip=False),
    "minmax_clip": lambda: preprocessing.MinMaxScaler(clip=True),
    "maxabs": lambda: preprocessing.MaxAbsScaler(),
    "robust": lambda: preprocessing.RobustScaler(),
    "l1": lambda: preprocessing.Normalizer("l1"),
    "l2": lambda: preprocessing.Normalizer("l2"),
    "max": lambda: preprocessing.Normalizer("max"),
    "polynomial": lambda: preprocessing.PolynomialFeatures(2),
    "interactions": lambda: preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False),
    "binarizer": lambda: preprocessing.Binarizer(threshold=0.3),
    "bins_ordinal": lambda: preprocessing.KBinsDiscretizer(3, encode="ordinal"),
    "bins_onehot": lambda: preprocessing.KBinsDiscretizer(3, encode="onehot-dense"),
    "power": lambda: preprocessing.PowerTransformer(),
    "quantile": lambda: preprocessing.QuantileTransformer(n_quantiles=10),
    "pca": lambda: decomposition.PCA(2),
    "pca_whiten": lambda: decomposition.PCA(2, whiten=True),
    "svd": lambda: decomposition.TruncatedSVD(2),
    "kernel_pca": lambda: decomposition.KernelPCA(2, kernel="rbf"),
    "select": lambda: feature_selection.SelectKBest(k=2),
    "variance": lambda: feature_selection.VarianceThreshold(),
    "imputer": lambda: impute.SimpleImputer(),
    "imputer_indicator": lambda: impute.SimpleImputer(add_indicator=True),
    "knn_imputer": lambda: impute.KNNImputer(n_neighbors=2),
    "union": lambda: make_union(preprocessing.StandardScaler(), decomposition.PCA(1)),
}
PREDICTORS = {
    "logistic": lambda: linear_model.LogisticRegression(),
    "logistic_l1": lambda: linear_model.LogisticRegression(penalty="l1", solver="liblinear"),
    "sgd": lambda: linear_model.SGDClassifier(loss="log_loss"),
    "sgd_huber": lambda: linear_model.SGDClassifier(loss="modified_huber"),
    "ridge_classifier": lambda: linear_model.RidgeClassifier(),
    "perceptron": lambda: linear_model.Perceptron(),
    "linear": lambda: linear_model.LinearRegression(),
    "lasso": lambda: linear_model.Lasso(0.1),
    "huber": lambda: linear_model.HuberRegressor(),
    "poisson": lambda: linear_model.PoissonRegressor(),
    "gamma": lambda: linear_model.GammaRegressor(),
    "bayesian": lambda: linear_model.BayesianRidge(),
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=4),
    "tree_regressor": lambda: tree.DecisionTreeRegressor(max_depth=4),
    "forest": lambda: ensemble.RandomForestClassifier(n_estimators=5, max_depth=4),
    "forest_regressor": lambda: ensemble.RandomForestRegressor(n_estimators=5, max_depth=4),
    "extra": lambda: ensemble.ExtraTreesClassifier(n_estimators=5, max_depth=4),
    "boosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=5),
    "boosting_regressor": lambda: ensemble.GradientBoostingRegressor(n_estimators=5),
    "hist": lambda: ensemble.HistGradientBoostingClassifier(max_iter=5),
    "hist_regressor": lambda: ensemble.HistGradientBoostingRegressor(max_iter=5),
    "adaboost": lambda: ensemble.AdaBoostClassifier(n_estimators=5),
    "bagging": lambda: ensemble.BaggingClassifier(n_estimators=3),
    "voting_soft": lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft"
    ),
    "voting_hard": lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))]
    ),
    "isolation": lambda: ensemble.IsolationForest(n_estimators=5),
    "svc": lambda: svm.SVC(probability=True),
    "svc_poly": lambda: svm.SVC(kernel="poly"),
    "svc_linear": lambda: svm.LinearSVC(),
    "svr": lambda: svm.SVR(),
    "nu_svr": lambda: svm.NuSVR(kernel="sigmoid"),
    "one_class": lambda: svm.OneClassSVM(),
    "gaussian_nb": lambda: naive_bayes.GaussianNB(),
    "bernoulli_nb": lambda: naive_bayes.BernoulliNB(),
    "knn": lambda: neighbors.KNeighborsClassifier(3),
    "knn_distance": lambda: neighbors.KNeighborsClassifier(3, weights="distance"),
    "knn_regressor": lambda: neighbors.KNeighborsRegressor(3),
    "centroid": lambda: neighbors.NearestCentroid(),
    "mlp": lambda: neural_network.MLPClassifier((5,), max_iter=30),
    "mlp_tanh": lambda: neural_network.MLPRegressor((5, 3), activation="tanh", max_iter=30),
    "kmeans": lambda: cluster.KMeans(3, n_init=1),
    "minibatch": lambda: cluster.MiniBatchKMeans(3, n_init=1),
    "mixture": lambda: mixture.GaussianMixture(2),
    "lda": lambda: discriminant_analysis.LinearDiscriminantAnalysis(),
    "qda": lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "one_vs_rest": lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "one_vs_one": lambda: multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
    "calibrated": lambda: CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2),
}
OPSETS = (9, 11, 12, 13, 15, 17, 18, 21)


def data(seed, classes, dtype, nan=False):
    rng = np.random.RandomState(seed)
    x = rng.uniform(-2, 2, (60, 4)).astype(dtype)
    if nan:
        x[rng.rand(*x.shape) < 0.1] = np.nan
    y = (np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) ** 2 > 0.5).astype(int)
    return x, y if classes == 2 else y + (np.nan_to_num(x[:, 2]) > 1)


def outputs(model, x, decide):
    """What skl2onnx gives of a model: label and scores, or the prediction, or the transformed data."""
    if hasattr(model, "predict_proba") and decide:
        return [model.predict(x), model.predict_proba(x)]
    if hasattr(model, "predict"):
        found = model.predict(x)
        if hasattr(model, "score_samples") and hasattr(model, "means_"):
            return [found, model.predict_proba(x)]
        if hasattr(model, "cluster_centers_"):
            return [found, model.transform(x)]
        if hasattr(model, "decision_function") and decide:
            return [found, model.decision_function(x)]
        return [found.reshape(-1, 1) if not decide else found]
    return [model.transform(x)]


def record(recorder, name, model, opset, seed, classes, dtype, note=""):
    x, y = data(seed, classes, dtype, nan="imputer" in note or "imputer" in name)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    decide = getattr(last, "_estimator_type", "") != "regressor" and hasattr(last, "predict")
    if any(word in f"{name} {note}" for word in ("poisson", "gamma")):
        y = y + 0.5
    made = {}

    def runs():
        model.fit(x, y)
        made["proto"] = to_onnx(
            model,
            x[:1],
            target_opset={"": opset, "ai.onnx.ml": 1 if opset < 12 else 2 if opset < 15 else 3},
            options={"zipmap": False} if decide and hasattr(last, "predict_proba") and not hasattr(last, "means_") else None,
        )
        found = outputs(model, x[:10], decide)
        return [({"X": x[:10]}, found[: len(made["proto"].graph.output)])]

    recorder.add(name, lambda path: path.write_bytes(made["proto"].SerializeToString()), runs, note)


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(root, group, "sklearn")
    for j, (name, make) in enumerate({**TRANSFORMERS, **PREDICTORS}.items()):
        for k, opset in enumerate(OPSETS):
            for dtype in ("float32", "float64"):
                classes = 2 + (j + k) % 2
                np.random.seed(seed)
                record(recorder, f"{name}_{opset}_{dtype[5:]}_{classes}", make(), opset, seed, classes, dtype)
    print(group, "estimators:", recorder.written, flush=True)
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        np.random.seed(k)
        chosen = [rng.choice(sorted(TRANSFORMERS)) for _ in range(rng.randint(1, 2))]
        steps = [TRANSFORMERS[name]() for name in chosen]
        if rng.random() < 0.2:
            steps[0] = ColumnTransformer([("a", steps[0], [0, 1]), ("b", "passthrough", [2, 3])])
        if rng.random() < 0.8:
            chosen.append(rng.choice(sorted(PREDICTORS)))
            steps.append(PREDICTORS[chosen[-1]]())
        dtype = rng.choice(["float32", "float32", "float64"])
        record(
            recorder,
            f"pipe{seed}_{k:05}",
            make_pipeline(*steps),
            rng.choice(OPSETS),
            k,
            rng.choice([2, 3]),
            dtype,
            " > ".join(chosen),
        )
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()

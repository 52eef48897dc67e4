"""One trial of space.yaml: a support vector regression of the diabetes data that come with scikit-learn.

Reports the error of a five-fold cross-validation as `rmse`.  Runs by itself too, with the defaults below:
PYTHONPATH=$(berth python path) python3 train.py
"""

import berth
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR


def error(C, gamma, epsilon):
    """Root mean squared error on data that the model has not seen."""
    x, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVR(C=C, gamma=gamma, epsilon=epsilon))
    return -cross_val_score(model, x, y, cv=5, scoring="neg_root_mean_squared_error").mean()


if __name__ == "__main__":
    rmse = error(**berth.params(C=1.0, gamma=0.1, epsilon=0.1))
    berth.log(rmse=rmse)
    print("rmse %.3f" % rmse)

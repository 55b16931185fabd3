"""Options of pytest that every folder of tests knows."""


def pytest_addoption(parser):
    parser.addoption("--run-e2e", action="store_true", help="run the tests of devices, too: GPUs")

"""What tests of several libraries share."""

import pytest

from gathernest.tools.bench import peers


@pytest.fixture(scope="session")
def tf():
    """TensorFlow with one thread, as the adapter's tests ask for: it takes another number at its first use only."""
    module = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    peers.TensorFlow().start(1)
    return module

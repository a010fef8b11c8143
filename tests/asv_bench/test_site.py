"""asv's page with what it loads beside it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

asv = pytest.importorskip("asv")

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("make_offline", ROOT / "asv_bench" / "site" / "make_offline.py")
assert spec is not None and spec.loader is not None
make_offline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_offline)
PAGE = Path(asv.__file__).parent / "www" / "index.html"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Packages with a file for each address of asv's page; the minified ones of flot are not there."""
    folder = tmp_path / "node_modules"
    for found in make_offline.REMOTE.finditer(PAGE.read_text()):
        name = found[2].rpartition("/")[2].replace("-3.3.1", "")
        path = folder / "some" / (name.replace(".min", "") if "flot" in name else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/* {path.name} */")
    (folder / "bootstrap" / "dist" / "fonts").mkdir(parents=True)
    monkeypatch.setattr(make_offline, "install", lambda where: folder)
    return folder


@pytest.fixture
def site(tmp_path):
    (tmp_path / "html" / "graphs").mkdir(parents=True)
    shutil.copy(PAGE, tmp_path / "html" / "index.html")
    (tmp_path / "html" / "graphs" / "a.json").write_text("[1, 2]")
    return tmp_path / "html"


def test_page_loads_nothing_from_elsewhere(site, packages):
    assert make_offline.make_offline(site) == 10
    page = (site / "index.html").read_text()
    assert not make_offline.REMOTE.search(page)
    assert page.index("vendor/jquery-3.3.1.min.js") < page.index("vendor/offline.js") < page.index("vendor/jquery.flot")
    assert (site / "vendor" / "jquery.flot.min.js").read_text() == "/* jquery.flot.js */"
    assert (site / "vendor" / "files.js").read_text() == 'gathernest_files = ["graphs/a.json"];\n'
    assert (site / "graphs" / "a.json.js").read_text() == 'gathernest_data("graphs/a.json", [1, 2]);\n'


def test_site_that_is_offline_stays_as_it_is(site, packages):
    make_offline.make_offline(site)
    page = (site / "index.html").read_text()
    assert make_offline.make_offline(site) == 0
    assert (site / "index.html").read_text() == page


def test_file_that_no_package_has_is_named(site, packages):
    (packages / "some" / "md5.min.js").unlink()
    with pytest.raises(make_offline.SiteError, match=r"has md5\.min\.js, which asv's page loads"):
        make_offline.make_offline(site)


def test_folder_without_a_site_is_rejected(tmp_path):
    command = [sys.executable, make_offline.__file__, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"make_offline: {tmp_path}/index.html is not there; run `asv publish` first\n"

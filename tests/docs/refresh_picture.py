"""Take docs/images/report.png from the real report in headless Chromium: python tests/docs/refresh_picture.py.

Of the page it shows the answer, the figures and four charts, close together; nothing is drawn for the picture alone.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli" / "report"))

from browser import Browser  # noqa: E402
from PIL import Image  # noqa: E402

SHAPE = "GQA 16/2, head 128"
WIDTH, HEIGHT = 1440, 1500
COLOURS = 256
CLOSER = """
body { font-size: 15px }
header, main { max-width: none } h1 { max-width: none; margin: 12px 0 18px }
.filters { position: static; padding-inline: 28px }
main { display: grid; grid-template-columns: 1fr 1fr; gap: 0 22px }
section { margin: 20px 0 0; min-width: 0 }
main > section { display: none } #roofline, #winners, #splits, #timeline { display: block !important }
details, .lead, .hint, .why, .skip, table, .card.table { display: none !important }
figure[data-chart=winners-extend], figure[data-chart=winners-verify] { display: none }
#splits figure:not([hidden]) ~ figure { display: none }
"""


def main() -> None:
    """Write the report of the packaged records, open it and save the picture."""
    out = ROOT / "docs" / "images" / "report.png"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        code = "import sys; from cli.main import main; sys.argv[0] = 'attnroof'; main()"
        subprocess.run([sys.executable, "-c", code, "report", "--html", str(page)], cwd=ROOT, check=True)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("</style>", f"{CLOSER}</style>", 1), encoding="utf-8")
        with Browser(WIDTH, HEIGHT) as browser:
            browser.open(f"{page.as_uri()}#shape={SHAPE.replace(' ', '+')}&theme=light")
            out.parent.mkdir(parents=True, exist_ok=True)
            browser.picture(out, whole=True)
    Image.open(out).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(out, optimize=True)
    sys.stdout.write(f"{out}: {out.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()

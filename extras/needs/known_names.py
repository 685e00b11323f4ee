"""What is known of packages and programs without asking anybody: their names, and what brings them."""

from collections.abc import Mapping
from typing import Final

from skills_agent.skills.skill import Need

_OF_THEIR_MODULE: Final = """
aeon aiofiles aiohttp altair anndata anthropic anyio arviz arxiv astropy attrs bibtexparser black boto3
cairosvg celery certifi chardet chromadb click colorama cryptography cssselect dash datamol datasets
deepchem defusedxml duckdb ebooklib fastapi feedparser flask folium fpdf fsspec geopandas gget graphviz
gspread gymnasium h5py habanero html2text httpx hypothesis imageio instructor ipykernel jinja2 joblib
jsonschema keyring langchain langgraph lifelines lightning litellm llvmlite lxml markdown markdownify
markitdown matplotlib mcp mistune msgspec mutagen mypy networkx nltk numba numpy onnxruntime openai openpyxl
opentrons orjson pandas paramiko pdf2image pdfplumber pikepdf playwright plotly polars praw psutil psycopg
pyarrow pydantic pydeseq2 pydicom pydub pygments pylatexenc pymc pymongo pymoo pymupdf pypandoc pypdf PyPDF2
pyperclip pytesseract pytest pytz qrcode rapidfuzz rasterio rdkit redis regex reportlab requests rich ruff
scanpy scapy scholarly scipy scvelo seaborn selenium shap shapely simpy spacy sqlalchemy sqlmodel
statsmodels streamlit stripe supabase sympy tabulate tenacity textstat tiktoken timesfm toml torch
torchvision tqdm trafilatura transformers tweepy typer unidecode urllib3 uvicorn weasyprint websockets xlrd
xlsxwriter xmltodict yfinance
"""
"""Distributions that have the name of the module that they bring."""

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "attr": "attrs",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "googleapiclient": "google-api-python-client",
    "google_auth_oauthlib": "google-auth-oauthlib",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "mpl_toolkits": "matplotlib",
    "mysql": "mysql-connector-python",
    "nacl": "pynacl",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slack_sdk": "slack-sdk",
    "slugify": "python-slugify",
    "telegram": "python-telegram-bot",
    "win32com": "pywin32",
    "yaml": "pyyaml",
    "youtube_transcript_api": "youtube-transcript-api",
    "zmq": "pyzmq",
    **{name: name for name in _OF_THEIR_MODULE.split()},
    "pdfminer": "pdfminer.six",
    "websocket": "websocket-client",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "umap": "umap-learn",
}  # fmt: skip
"""Distributions by the module that a script imports. What is not here may be anybody's package."""

_DISTRIBUTIONS: Final = frozenset(DISTRIBUTIONS.values())

_OF_NODE: Final = """
@anthropic-ai/sdk @google/generative-ai @modelcontextprotocol/sdk @mozilla/readability @octokit/rest
@playwright/test ajv archiver axios better-sqlite3 canvas chalk chart.js cheerio chokidar commander
csv-parse csv-stringify d3 date-fns dayjs docx dotenv ejs esbuild exceljs express fast-glob
fast-xml-parser ffmpeg-static fs-extra glob gray-matter handlebars inquirer jimp js-yaml jsdom jszip
lodash luxon mammoth markdown-it marked mermaid minimist nanoid node-fetch openai ora papaparse
pdf-lib pdf-parse pdfkit pdfjs-dist playwright playwright-core postcss pptxgenjs prettier puppeteer
puppeteer-core react react-dom react-icons rehype remark semver sharp sqlite3 three ts-morph ts-node
tsx turndown typescript uuid ws xlsx xml2js yaml yargs zod
"""
NODE_PACKAGES: Final = frozenset(_OF_NODE.split())
"""Node packages that are what their name says. Of others that a script imports, nobody said that it means the
package of that name in a registry: that may be anybody's."""

_OF_THEIR_PROGRAM: Final = """
cmake curl ffmpeg gh git glab inkscape jq libreoffice make pandoc qpdf ruby shellcheck sox tmux tree
unzip wget yq yt-dlp zip
"""
PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (name, name) for name in _OF_THEIR_PROGRAM.split()},
    "aws": ("awscli", "awscli"),
    "az": ("", "azure-cli"),
    "bun": ("npm:bun", "oven-sh/bun/bun"),
    "cargo": ("cargo", "rust"),
    "convert": ("imagemagick", "imagemagick"),
    "deno": ("", "deno"),
    "docker": ("docker.io", "docker"),
    "dot": ("graphviz", "graphviz"),
    "exiftool": ("libimage-exiftool-perl", "exiftool"),
    "fd": ("fd-find", "fd"),
    "ffprobe": ("ffmpeg", "ffmpeg"),
    "gcloud": ("", "google-cloud-sdk"),
    "go": ("golang-go", "go"),
    "gs": ("ghostscript", "ghostscript"),
    "helm": ("", "helm"),
    "java": ("default-jre", "openjdk"),
    "kubectl": ("", "kubernetes-cli"),
    "latexmk": ("latexmk", "mactex"),
    "magick": ("imagemagick", "imagemagick"),
    "mutool": ("mupdf-tools", "mupdf-tools"),
    "mysql": ("default-mysql-client", "mysql-client"),
    "node": ("nodejs", "node"),
    "npm": ("npm", "node"),
    "npx": ("npm", "node"),
    "pdflatex": ("texlive-latex-base", "mactex"),
    "pdfimages": ("poppler-utils", "poppler"),
    "pdftoppm": ("poppler-utils", "poppler"),
    "pdftotext": ("poppler-utils", "poppler"),
    "php": ("php-cli", "php"),
    "pnpm": ("npm:pnpm", "pnpm"),
    "poetry": ("python3-poetry", "poetry"),
    "psql": ("postgresql-client", "libpq"),
    "pwsh": ("", "powershell"),
    "redis-cli": ("redis-tools", "redis"),
    "rg": ("ripgrep", "ripgrep"),
    "rsvg-convert": ("librsvg2-bin", "librsvg"),
    "rustc": ("rustc", "rust"),
    "soffice": ("libreoffice", "libreoffice"),
    "sqlite3": ("sqlite3", "sqlite"),
    "swift": ("", "swift"),
    "terraform": ("", "terraform"),
    "tesseract": ("tesseract-ocr", "tesseract"),
    "uv": ("pip:uv", "uv"),
    "uvx": ("pip:uv", "uv"),
    "xelatex": ("texlive-xetex", "mactex"),
    "yarn": ("yarnpkg", "yarn"),
}  # fmt: skip
"""Packages of Debian (`pip:` or `npm:`: of these, for it has none) and of Homebrew, by the program that they
bring; empty: nothing brings it."""


def is_known(need: Need) -> bool:
    """Return whether a package is what its name says: another of that name may be anybody's."""
    return need.name in (NODE_PACKAGES if need.kind == "node" else _DISTRIBUTIONS)


SPELLINGS: Final[Mapping[str, str]] = {
    "node.js": "node", "nodejs": "node", "python3": "python", "libre office": "libreoffice",
    "imagemagick": "convert", "ghostscript": "gs", "poppler": "pdftotext", "poppler-utils": "pdftotext",
    "graphviz": "dot", "ripgrep": "rg", "github cli": "gh", "aws cli": "aws",
    "powershell": "pwsh", "postgresql client": "psql",
}  # fmt: skip
"""How people write the names of programs, in lower case."""

AS_WELL: Final[Mapping[str, tuple[str, ...]]] = {
    "convert": ("magick",),
    "magick": ("convert",),
    "libreoffice": ("soffice",),
    "soffice": ("libreoffice",),
    "fd": ("fdfind",),
    "docker": ("podman",),
}
"""Programs that do as well, whatever the author wrote."""

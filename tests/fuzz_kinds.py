"""The kinds of files that `tests/fuzz.py` damages: whole examples of each, and how adumbra reads them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import adumbra as ad
from adumbra.cli.answers import _read_pairs
from adumbra.common.array_files import read_matrix
from adumbra.common.errors import AdumbraError, InputError
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.spelling import texts
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.kinds.conditions import read_queries
from adumbra.ledger.ledger import Ledger
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.hierarchical import Hierarchical
from adumbra.mechanisms.lip import LIP
from adumbra.queries.domain import Domain
from adumbra.releases.folder import open_folder
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema
from tests.conftest import SCHEMA
from tests.fuzz import SECRET, Kind, Mutate

__all__ = ["KINDS"]

Charge = Callable[[], None]
_ROWS = 40
_ODD: list[Any] = [
    None, True, -1, 0, 1e308, -1e308, 1e-320, 10**400, float("nan"), float("inf"), "", "\0", "x" * 5000, [], {}, [[]],
    [{}], {"a": {"a": {}}}, 2**63, 2**31, "row", [0] * 1000,
]  # fmt: skip


# ---- tables


def _columns() -> dict[str, pa.Array]:
    words = [f"{SECRET}{row % 7}" if row % 5 else None for row in range(_ROWS)]
    numbers = list(range(_ROWS))
    return {
        "number": pa.array([row * 1.5 for row in numbers]),
        "text": pa.array(words),
        "code": pa.array(words).dictionary_encode(),
        "yes": pa.array([row % 2 == 0 for row in numbers]),
        "whole": pa.array(numbers, pa.int32()),
        "large": pa.array(words, pa.large_string()),
        "view": pa.array(words, pa.string_view()),
        "day": pa.array(numbers, pa.date32()),
        "moment": pa.array(numbers, pa.timestamp("us", "Europe/Vienna")),
        "clock": pa.array(numbers, pa.time32("s")),
        "price": pa.array(numbers, pa.decimal128(10, 2)),
        "half": pa.array([1.0] * _ROWS, pa.float16()),
        "nothing": pa.nulls(_ROWS),
        "list": pa.array([[row, row + 1] for row in numbers]),
        "record": pa.array([{"x": row, "y": SECRET} for row in numbers]),
        "raw": pa.array([SECRET.encode()] * _ROWS),
    }


def _arrow(columns: dict[str, pa.Array], *, file: bool, packing: str | None = None) -> bytes:
    table, out = pa.table(columns), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=packing, unify_dictionaries=file)
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=25)
    return out.getvalue()


def _odd_columns() -> dict[str, pa.Array]:
    few = pa.array([1, 2, 3], pa.int8())
    return {
        "text": pa.array([SECRET] * 3),
        "dense": pa.UnionArray.from_dense(pa.array([0, 0, 0], pa.int8()), pa.array([0, 1, 2], pa.int32()), [few]),
        "sparse": pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [few]),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([SECRET, "b"])),
        "span": pa.array([1, 2, 3], pa.duration("s")),
        "listview": pa.array([[1], [2], [3]], pa.list_view(pa.int8())),
        "map": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int8())),
        "wide": pa.array([1, 2, 3], pa.decimal256(60, 2)),
        "uuid": pa.array([b"0123456789abcdef"] * 3, pa.uuid()),
    }


def _arrow_examples(file: bool) -> dict[str, bytes]:
    simple = {name: _columns()[name] for name in ("number", "text", "code", "yes")}
    return {
        "simple.arrow": _arrow(simple, file=file),
        "rich.arrow": _arrow(_columns(), file=file),
        "odd.arrow": _arrow(_odd_columns(), file=file),
        "lz4.arrow": _arrow(_columns(), file=file, packing="lz4"),
        "zstd.arrow": _arrow(_columns(), file=file, packing="zstd"),
    }


def _parquet_examples(_: Path) -> dict[str, bytes]:
    left_out = ("half", "nothing", "view")
    table = pa.table({name: column for name, column in _columns().items() if name not in left_out})
    examples = {}
    options: dict[str, dict[str, Any]] = {
        "plain": {"compression": "none", "use_dictionary": False, "store_schema": False},
        "snappy": {"row_group_size": 25},
        "zstd": {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": ["text"]},
        "gzip": {"compression": "gzip", "column_encoding": {"number": "BYTE_STREAM_SPLIT"}, "use_dictionary": False},
    }
    for name, chosen in options.items():
        out = io.BytesIO()
        pq.write_table(table, out, **chosen)
        examples[f"{name}.parquet"] = out.getvalue()
    return examples


def _read_table(path: Path, charge: Charge) -> None:
    """As a release does: counted, then charged, then read."""
    table = open_table(path)
    names = [name for name in table.columns if table.types[name] != "other"]
    table.count()
    if not names:
        return
    charge()
    total = 0
    for frame in table.batches(names, 7):
        total += frame.height
        for column in frame:
            texts(column).n_unique()
    assert total == table.count()
    draft_schema(table)


_TEXT = (
    f'name,number,text\n1,{SECRET}1,x\n2,{SECRET}2,"a, b"\n' + "".join(f'{i},"{SECRET}",\u00e9\n' for i in range(30))
).encode()
_TEXT_WORDS = (b'"', b"\n", b"\r", b"\0", b",", b"\xff", b"\xed\xa0\x80", b'""', b"\xef\xbb\xbf", b"\n\n", b"," * 50)


def _zstd(content: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    return out.getvalue().to_pybytes()


def _packed(pack: Callable[[bytes], bytes]) -> Callable[[str, bytes, random.Random, Mutate], bytes]:
    return lambda file, content, rng, mutate: pack(mutate(_TEXT, rng))


# ---- release folders


_FRAME = pl.DataFrame({"age": [34, 71, 8, 52] * 5, "sex": ["F", "M", "F", "M"] * 5})
_DECLARED = Schema.from_dict(
    {
        "table": {"name": "people"},
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "sex": {"kind": "category", "values": ["F", "M"]},
        },
    }
)
_MECHANISMS: dict[str, Any] = {"dppro": DPPro(dimension=2), "hierarchical": Hierarchical(), "lip": LIP()}


def _released(*files: str) -> Callable[[Path], dict[str, bytes]]:
    """Those files of a release by each of a few mechanisms."""

    def examples(folder: Path) -> dict[str, bytes]:
        key = _key(folder)
        for name, mechanism in _MECHANISMS.items():
            ad.release(_FRAME, _DECLARED, mechanism, ad.Budget(1.0, 1e-6), out=folder / name, signing_key=key)
        places = [f"{name}/{file}" for name in _MECHANISMS for file in files]
        return {place: (folder / place).read_bytes() for place in places}

    return examples


def _key(folder: Path) -> Path:
    made = Ed25519PrivateKey.generate()
    path = folder / "key.pem"
    path.touch(0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def _read_folder(path: Path, _: Charge) -> None:
    """As an analyst does who does not ask whether it was changed."""
    folder = open_folder(path.parent)
    folder.verify()
    release = ad.load(path.parent)
    repr(release)
    for ask in (
        lambda: release.table,
        lambda: release.arrays,
        lambda: release.distances([(0, 1)]),
        lambda: release.mean("age"),
        lambda: release.count("sex", "F"),
        lambda: release.marginal(["sex"]),
        lambda: release.components.components(),
    ):
        with contextlib.suppress(InputError):  # not every release answers every question
            ask()


def _json_inside(file: str, content: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """One value somewhere in the document replaced by an odd one."""
    document = json.loads(content)
    _replace_one(document, rng)
    return json.dumps(document).encode()


def _replace_one(document: Any, rng: random.Random) -> None:
    inner: Any = document
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
            inner = inner[key]
            continue
        inner[key] = rng.choice(_ODD)
        return


def _npz_inside(file: str, content: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """The same archive with one array damaged and the checksums right."""
    if not file.endswith(".npz"):
        return _json_inside(file, content, rng, mutate) if file.endswith(".json") else mutate(content, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as whole, zipfile.ZipFile(out, "w") as damaged:
        names = whole.namelist()
        chosen = rng.choice(names)
        for name in names:
            damaged.writestr(name, mutate(whole.read(name), rng) if name == chosen else whole.read(name))
    return out.getvalue()


# ---- models, matrices, schemas, workloads


def _model_examples(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 3))
    frame = pl.DataFrame({f"x{i}": rows[:, i] for i in range(3)}).with_columns(
        use=pl.Series(np.where(rows[:, 0] > 0, "a", "b")), hide=pl.Series(np.where(rows[:, 1] > 0, "c", "d"))
    )
    chosen: dict[str, dict[str, Any]] = {"fine": {"release": "fine"}, "whole": {"release": "resample", "whole": True}}
    for name, options in chosen.items():
        fit_jupa(frame, JupaRecipe(("use",), ("hide",), **options), seed=1).save(folder / name)
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in folder.glob("*/*") if p.is_file()}


def _read_model(path: Path, _: Charge) -> None:
    repr(JupaModel.load(path.parent))


def _matrix_examples(_: Path) -> dict[str, bytes]:
    examples = {}
    for name, array in {"real": np.eye(3), "small": np.ones((2, 3), np.float32), "whole": np.ones((2, 2), int)}.items():
        out = io.BytesIO()
        np.save(out, array)
        examples[f"{name}.npy"] = out.getvalue()
    return examples


def _read_matrix(path: Path, _: Charge) -> None:
    read_matrix(path, "--basis", "one axis a row", "write it again")


def _read_schema(path: Path, _: Charge) -> None:
    schema = Schema.load(path)
    schema.space()
    repr(schema)


_SCHEMA_WORDS = (
    b"[", b"]", b"=", b'"', b"'''", b"{", b".", b"\\", b"\\uD800", b"nan", b"inf", b"-", b"9" * 400, b"1e400", b"[[",
    b'[columns.""]', b"\nmissing = 1\n", b"\nrows = 1\n", b"1979-05-27", b"\0", b"\xff", b"." * 300, b"[" * 300,
)  # fmt: skip
_JSON_WORDS = (
    b"{", b"}", b"[", b"]", b'"', b",", b"null", b"NaN", b"Infinity", b"1e999", b"-0", b"9" * 400, b"\\ud800", b"\0",
    b"\xff", b"[" * 300, b'{"a":' * 300,
)  # fmt: skip
_QUERIES_CSV = b"query,weight,age_from,age_to,sex\nq1,1,0,30,F\nq1,-1,0,10,\nq2,2.5,10,,M\n"
_QUERIES_JSON = json.dumps(
    {
        "queries": [
            {"name": "q1", "where": {"sex": "F", "age": [0, 30]}},
            {"name": "q2", "terms": [{"weight": 2, "where": {"age": [10, None]}}, {"weight": -1, "where": {}}]},
            {"name": "q3", "weight": 0.5},
        ]
    }
).encode()


def _read_queries(path: Path, _: Charge) -> None:
    read_queries(path, Domain.of(_DECLARED, _DECLARED.space()))


def _read_pairs_of_rows(path: Path, _: Charge) -> None:
    _read_pairs(path)


# ---- ledgers


def _ledger_examples(folder: Path) -> dict[str, bytes]:
    path = folder / "ledger.db"
    ledger = Ledger(path)
    ledger.set_cap("people", Neighbours(Unit.ROW, Relation.REPLACE), 100.0, 1e-6)
    for name in ("dppro", "hierarchical"):
        ad.release(_FRAME, _DECLARED, _MECHANISMS[name], ad.Budget(1.0, 1e-6), ledger=ledger, out=folder / name)
    return {"ledger.db": path.read_bytes()}


def _read_ledger(path: Path, _: Charge) -> None:
    ledger = Ledger(path, patience=1.0)
    neighbours = Neighbours(Unit.ROW, Relation.REPLACE)
    for ask in (
        ledger.check,
        lambda: [(entry.event, repr(entry)) for entry in ledger.entries()],
        lambda: [ledger.spent(table, neighbours, 1e-6) for table in ledger.tables()],
        lambda: ledger.set_cap("people", neighbours, 50.0, 1e-6),
    ):
        with contextlib.suppress(AdumbraError):  # whatever one says, the others must not break
            ask()
    for left in path.parent.glob("ledger.db-*"):  # a journal would be played back into the next file
        left.unlink()


def _ledger_inside(file: str, content: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """A ledger whose chain is right and one of whose lines is odd: what somebody writes who knows the format."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / file
        path.write_bytes(content)
        with contextlib.closing(sqlite3.connect(path)) as db:
            guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in guards:
                db.execute(f'DROP TRIGGER "{name}"')
            lines = [line for (line,) in db.execute("SELECT line FROM lines ORDER BY sequence")]
            chosen = rng.randrange(len(lines))
            if rng.random() < 0.8:
                document = json.loads(lines[chosen])
                _replace_one(document, rng)
                lines[chosen] = json.dumps(document, sort_keys=True, separators=(",", ":"))
            else:
                lines[chosen] = mutate(lines[chosen].encode(), rng).decode(errors="replace")
            digest = "0" * 64
            for sequence, line in enumerate(lines, start=1):
                digest = hashlib.sha256((digest + line).encode()).hexdigest()
                db.execute("UPDATE lines SET line = ?, hash = ? WHERE sequence = ?", (line, digest, sequence))
            db.execute("UPDATE head SET hash = ?", (digest,))
            for _, sql in guards:
                db.execute(sql)
            db.commit()
        return path.read_bytes()


KINDS: dict[str, Kind] = {
    "arrow": Kind(lambda _: _arrow_examples(file=True), _read_table),
    "stream": Kind(lambda _: _arrow_examples(file=False), _read_table),
    "parquet": Kind(_parquet_examples, _read_table),
    "csv": Kind(lambda _: {"t.csv": _TEXT, "t.tsv": _TEXT.replace(b",", b"\t")}, _read_table, words=_TEXT_WORDS),
    "gz": Kind(lambda _: {"t.csv.gz": gzip.compress(_TEXT)}, _read_table, _packed(gzip.compress), _TEXT_WORDS),
    "zst": Kind(lambda _: {"t.csv.zst": _zstd(_TEXT)}, _read_table, _packed(_zstd), _TEXT_WORDS),
    "npz": Kind(_released("model.npz"), _read_folder, _npz_inside),
    "data": Kind(_released("data.parquet"), _read_folder),
    "card": Kind(_released("card.json"), _read_folder, _json_inside, _JSON_WORDS),
    "signature": Kind(_released("card.sig"), _read_folder, _json_inside, _JSON_WORDS),
    "model": Kind(_model_examples, _read_model, _npz_inside, _JSON_WORDS),
    "matrix": Kind(_matrix_examples, _read_matrix),
    "schema": Kind(lambda _: {"s.toml": SCHEMA.encode()}, _read_schema, words=_SCHEMA_WORDS),
    "queries_csv": Kind(lambda _: {"q.csv": _QUERIES_CSV}, _read_queries, words=_TEXT_WORDS),
    "queries_json": Kind(lambda _: {"q.json": _QUERIES_JSON}, _read_queries, _json_inside, _JSON_WORDS),
    "pairs": Kind(lambda _: {"p.csv": b"i,j\n0,1\n2,3\n"}, _read_pairs_of_rows, words=_TEXT_WORDS),
    "ledger": Kind(_ledger_examples, _read_ledger, _ledger_inside),
}

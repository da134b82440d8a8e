"""Released against true distances on real tables: bias over random pairs, coverage of 95 % intervals.

    python benchmarks/distances.py --data DIR [--quick] [--json]

DIR holds adult.csv.gz and retail.csv.gz. The schemas below are public knowledge: the ranges of the census form and
its published code lists; for retail the 50 most frequent items count as a public item list, as in the paper.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from pathlib import Path

import polars as pl

import adumbra as ad
from adumbra.compare.distance_fit import check_distances
from adumbra.tables.read import open_table

_ADULT = {
    "age": {"kind": "number", "low": 17, "high": 90, "integer": True},
    "fnlwgt": {"kind": "number", "low": 0, "high": 1500000, "integer": True},
    "education_num": {"kind": "number", "low": 1, "high": 16, "integer": True},
    "capital_gain": {"kind": "number", "low": 0, "high": 99999, "integer": True},
    "capital_loss": {"kind": "number", "low": 0, "high": 4500, "integer": True},
    "hours_per_week": {"kind": "number", "low": 1, "high": 99, "integer": True},
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    "income": "<=50K >50K",
    "split": {"role": "drop"},
}


def adult_schema() -> ad.Schema:
    columns = {
        name: {"kind": "category", "values": spec.split()} if isinstance(spec, str) else spec
        for name, spec in _ADULT.items()
    }
    return ad.Schema.from_dict({"table": {"name": "adult"}, "columns": columns})


def retail_flags(path: Path, items: int = 50) -> tuple[pl.DataFrame, ad.Schema]:
    baskets = [set(line.split()) for line in pl.read_csv(path, infer_schema=False)["items"].fill_null("")]
    counts = Counter(item for basket in baskets for item in basket)
    top = [item for item, _ in counts.most_common(items)]
    frame = pl.DataFrame({f"item_{item}": [item in basket for basket in baskets] for item in top})
    columns = {name: {"kind": "flag"} for name in frame.columns}
    return frame, ad.Schema.from_dict({"table": {"name": "retail"}, "columns": columns})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true", help="1,000 pairs, one epsilon")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.data is None:
        if not arguments.quick:
            parser.error("give the folder of the data sets with --data")
        print("needs the data sets, with --data: nothing done")
        return
    pairs_count = 1_000 if arguments.quick else 10_000
    retail, retail_schema = retail_flags(arguments.data / "retail.csv.gz")
    tables = {"adult": (arguments.data / "adult.csv.gz", adult_schema()), "retail": (retail, retail_schema)}
    rows = []
    for name, (table, schema) in tables.items():
        for unit in ("cell", "row"):
            for epsilon in (1.0,) if arguments.quick else (0.5, 1.0, 4.0, 8.0):
                for expected in (None, 5.0):
                    budget = ad.Budget(epsilon, 1e-6, ad.Unit(unit), ad.Relation.REPLACE)
                    release = ad.release(table, schema, ad.DPPro(expected=expected), budget)
                    pairs = release.random_pairs(pairs_count, seed=11)
                    check = check_distances(release.kind.answers(release.content), open_table(table), schema, pairs)
                    rows.append(
                        {
                            "table": name,
                            "unit": unit,
                            "relation": "replace",
                            "epsilon": epsilon,
                            "delta": 1e-6,
                            "k": release.facts.dimension,
                            "expected": expected,
                            "sigma": release.card.noise["rows"].standard_deviation,
                            **dataclasses.asdict(check),
                        }
                    )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("table   unit epsilon   k    sigma   truth  mean error  (its se)   z    z if independent  cover   rmse")
    for r in rows:
        z = r["mean_error"] / r["mean_error_standard_error"]
        naive = r["mean_error"] / r["independent_standard_error"]
        print(
            f"{r['table']:7} {r['unit']:4} {r['epsilon']:7g} {r['k']:3d} {r['sigma']:8.3f} {r['mean_truth']:7.3f} "
            f"{r['mean_error']:11.3f} {r['mean_error_standard_error']:9.3f} {z:6.2f} {naive:12.2f} "
            f"{r['coverage']:12.3f} "
            f"{r['root_mean_squared_error']:9.2f}"
        )


if __name__ == "__main__":
    main()

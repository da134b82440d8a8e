"""The audit as a page: it says what the report says, draws the claim where the formula puts it, and loads nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from adumbra.accounting.calibrate import mu_for
from adumbra.audit.findings import NOT_REFUTED, REFUTED, WORDING, AuditReport, Finding, Measured
from adumbra.audit.page import page_document
from adumbra.common.errors import InputError
from adumbra.report.html import html_page

SEEN = Measured((1.0, 0.3, 0.01, 0.0), (1.0, 0.5, 0.02, 0.004), (0.99, 0.48, 0.016, 0.002), (1.0, 0.52, 0.024, 0.007))
SOUND = Finding(
    target="dppro",
    neighbours="row/replace",
    pair="all lowest against all highest",
    epsilon=1.0,
    delta=1e-6,
    lower_bound=0.93,
    confidence=0.99,
    method="threshold",
    runs=20_000,
    seconds=1.25,
    exact=0.98,
    measured=SEEN,
)
BROKEN = replace(
    SOUND,
    target="published/lip",
    neighbours="cell/replace",
    delta=0.0,
    lower_bound=7.5,
    exact=math.inf,
    measured=Measured((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.998, 0.998), (0.002, 1.0, 1.0)),
)


def shown(*findings: Finding, confidence: float = 0.95, command: str | None = None) -> str:
    return html_page(page_document(AuditReport(findings, confidence, "adumbra 9.8.7"), command))


def drawings(text: str, kind: str = "") -> list[ElementTree.Element]:
    """Every SVG of the page, read as XML, which refuses a stray tag, quote or ampersand."""
    found = [ElementTree.fromstring(part) for part in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return [drawing for drawing in found if kind in drawing.get("class", "").split() or not kind]


def words(text: str) -> str:
    """What is read: without style and tags, spaces made single."""
    bare = re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", bare.replace("&#x27;", "'").replace("&quot;", '"'))


def cells(text: str) -> list[dict[str, str]]:
    """The table, a dictionary for each row."""
    rows = re.findall(r'<tr role="row">(<td.*?)</tr>', text, re.DOTALL)
    return [
        {
            name: words(cell).strip()
            for name, cell in re.findall(r'data-label="([^"]+)"[^>]*>(.*?)</td>', row, re.DOTALL)
        }
        for row in rows
    ]


def value(label: str) -> float:
    return float(label.rstrip("%")) / 100


def drawn(panel: ElementTree.Element, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A path's points read off as a person does, by the labelled ticks: false alarms, power, and the raw points.

    Between two ticks the scale is linear if one of them is 0 or the ticks are even, logarithmic otherwise.
    """
    path = next(element for element in panel.iter("path") if element.get("class") == kind)
    points = np.array([[float(n) for n in pair.split()] for pair in path.get("d", "").strip("MZ").split("L")])

    def read(raw: np.ndarray, side: str, along: str) -> np.ndarray:
        ticks = [e for e in panel.iter("text") if side in e.get("class", "").split()]
        marks = sorted((float(e.get(along, "")), value(e.text or "")) for e in ticks)
        at, labels = np.array([m[0] for m in marks]), np.array([m[1] for m in marks])
        inner = labels[labels > 0]
        if np.allclose(np.diff(np.sort(labels)), labels[labels > 0].min()):
            return np.interp(raw, at, labels)
        above = 10 ** np.interp(raw, at[labels > 0], np.log10(inner))
        first, zero = at[labels == inner.min()][0], at[labels == 0][0]
        share = (raw - zero) / (first - zero)
        return np.where(share < 1, share * inner.min(), above)

    return read(points[:, 0], "across", "x"), read(points[:, 1], "up", "y"), points[:, 0], points[:, 1]


class Nesting(HTMLParser):
    """Every element that opens closes, in order."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [given for name, given in attrs if name == "id" and given]
        self.links += [given for name, given in attrs if name == "href" and given]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def nesting(text: str) -> Nesting:
    parser = Nesting()
    parser.feed(text)
    assert parser.open == []
    return parser


# ------------------------------------------------------------------------------------------------------------- words


def test_the_page_says_what_the_report_says() -> None:
    text = shown(SOUND, BROKEN, command="adumbra audit --all --epsilon 1")
    said = words(text)
    assert WORDING in said
    assert said.index(WORDING) < said.index("2 attacks, 1 refuted.") < said.index("lower bound")
    assert "With 95% confidence all 2 lower bounds hold at once." in said
    assert "adumbra audit --all --epsilon 1" in said
    assert "adumbra 9.8.7" in said
    assert "<title>Privacy audit: 1 of 2 promises refuted</title>" in text
    assert "Audited: published/lip (cell/replace); dppro (row/replace)." in re.sub(r" ([;.)])", r"\1", said)
    assert "How to read this" in said and "<details>" in text


def test_the_table_has_every_number() -> None:
    (row,) = cells(shown(SOUND))
    assert row == {
        "verdict": NOT_REFUTED,
        "target": "dppro",
        "neighbours": "row/replace",
        "pair": "all lowest against all highest",
        "claimed": "1 delta 1e-6",
        "lower bound": "0.93",
        "exact at this pair": "0.98",
        "share of claim reached": "93%",
        "method": "threshold",
        "runs": "20,000",
        "seconds": "1.2",
    }
    (row,) = cells(shown(BROKEN))
    assert (row["verdict"], row["claimed"], row["exact at this pair"]) == (REFUTED, "1", "infinite")


def test_refuted_comes_first_and_otherwise_the_order_stays() -> None:
    others = [replace(SOUND, target=name) for name in ("b", "a")]
    rows = cells(shown(others[0], BROKEN, others[1], replace(BROKEN, target="worse", lower_bound=9.0)))
    assert [row["target"].replace(" ", "") for row in rows] == ["published/lip", "worse", "b", "a"]
    assert [row["verdict"] for row in rows] == [REFUTED, REFUTED, NOT_REFUTED, NOT_REFUTED]


def test_a_verdict_has_a_word_and_a_colour() -> None:
    text = shown(SOUND, BROKEN)
    assert text.count(f'<span class="mark bad">{REFUTED}</span>') == 2  # in the table and above the picture
    assert text.count(f'<span class="mark plain">{NOT_REFUTED}</span>') == 2


def test_not_refuted_is_no_pass_where_the_formula_refutes() -> None:
    said = words(shown(replace(SOUND, exact=1.04)))
    assert "1.04, above the claim" in said
    assert "1 attack, 0 refuted." in said
    assert "Of those not refuted, 1 cannot hold by the formula" in said
    for harmless in (SOUND, replace(SOUND, exact=1.0), replace(SOUND, exact=None), BROKEN):
        assert "above the claim" not in words(shown(harmless)).split("How to read")[0]
    assert "no formula" in words(shown(replace(SOUND, exact=None)))


@pytest.mark.parametrize(
    ("bound", "number", "share"),
    [
        (0.99999, "0.999", "99%"),
        (1.0, "1", "100%"),
        (1.00004, "1.00004", "over 100%"),
        (1.0 + 1e-12, "1.000000000001", "over 100%"),
        (math.nextafter(1.0, 2.0), "1.0000000000000002", "over 100%"),
        (0.0, "0", "0%"),
        (23.4567, "23.456", "2,345%"),
        (math.inf, "infinite", "infinite"),
    ],
)
def test_bounds_are_rounded_down_but_never_to_the_claim_they_refute(bound: float, number: str, share: str) -> None:
    (row,) = cells(shown(replace(SOUND, lower_bound=bound)))
    assert (row["lower bound"], row["share of claim reached"]) == (number, share)


def test_confidence_is_never_rounded_up() -> None:
    expected = {0.95: "95%", 0.99: "99%", 0.999: "99.9%", 0.99999: "99.999%", 0.9999999: "99.99999%", 0.5: "50%"}
    for confidence, said in {**expected, 0.96789: "96.78%", 1 - 0.05 / 3: "98.33%"}.items():
        assert f"With {said} confidence" in words(shown(SOUND, confidence=confidence)), confidence


def test_a_bar_is_as_long_as_its_share() -> None:
    def width(finding: Finding) -> tuple[float, float]:
        (bar,) = drawings(shown(finding), "bar")
        mark = float((bar.findall("path")[0].get("d") or "").split()[0].lstrip("M"))
        return float(bar.findall("rect")[1].get("width") or ""), mark

    length, mark = width(replace(SOUND, lower_bound=0.5))
    assert length == pytest.approx(mark / 2, abs=0.1)
    length, mark = width(replace(SOUND, lower_bound=1.2))
    assert length == pytest.approx(mark * 1.2, abs=0.1)
    assert width(replace(SOUND, lower_bound=1e6))[0] == 100 > mark
    assert width(replace(SOUND, epsilon=0.0, lower_bound=0.0))[0] == 0
    assert width(replace(SOUND, epsilon=0.0, lower_bound=0.1))[0] == 100


def test_an_empty_report_is_a_page_that_says_so() -> None:
    text = shown()
    assert "Nothing was audited." in words(text) and "Nothing was attacked." in words(text)
    assert WORDING in words(text)
    assert "<table" not in text and "<figure" not in text and "confidence all" not in text
    nesting(text)


# ------------------------------------------------------------------------------------------------------ safe to open


NASTY = "<script>alert(1)</script> & \"quote\" 'apostrophe' ]]> <!-- \x00\x1b\u202e\n end"


def test_text_is_escaped_everywhere() -> None:
    changed = dict.fromkeys(("target", "neighbours", "pair", "method", "note"), NASTY)
    report = AuditReport((replace(SOUND, **changed), replace(BROKEN, **changed)), 0.95, NASTY)
    text = html_page(page_document(report, command=NASTY))
    assert "<script" not in text and "<!--" not in text
    assert not re.search("[\x00\x1b\u202e]", text)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;".replace("/", "/<wbr>")) >= 2  # targets may break there
    assert len(drawings(text)) == 2 * (1 + 2 + 5)  # a bar, two panels and the five keys of the legend
    nesting(text)


def test_nothing_is_loaded_from_outside() -> None:
    text = shown(SOUND, BROKEN, command="adumbra audit --all")
    assert "://" not in text and "//" not in re.sub(r"<wbr>", "", text)
    for way in ("<script", "<link", "<img", "<iframe", "src=", "url(", "@import", "javascript:"):
        assert way not in text
    assert "default-src 'none'" in text
    found = nesting(text)
    assert sorted(found.links) == sorted(f"#{name}" for name in found.ids)
    assert len(set(found.ids)) == len(found.ids) == 2


def test_light_dark_phone_and_paper() -> None:
    style = re.findall(r"<style>(.*?)</style>", shown(), re.DOTALL)[0]
    assert "@media screen and (prefers-color-scheme:dark)" in style  # screen only: paper stays light
    assert "@media screen and (max-width:" in style and "@media print" in style
    themes = [
        dict(re.findall(r"--([a-z-]+):(#[0-9a-f]+)", part)) for part in re.findall(r":root\{(.*?)\}", style, re.DOTALL)
    ]
    light, dark = themes[0], themes[1]
    assert light.keys() == dark.keys()
    for theme in (light, dark):
        assert set(re.findall(r"var\(--([a-z-]+)\)", style)) == theme.keys()
        for ink, paper in (
            *(("text", paper) for paper in ("page", "ground")),
            *(("quiet", paper) for paper in ("page", "ground")),
            *(("red", paper) for paper in ("ground", "red-soft")),
            ("slate", "slate-soft"),
            *((line, "ground") for line in ("blue", "orange")),
        ):
            assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)


def contrast(one: str, other: str) -> float:
    """WCAG 2: 4.5 is the least for text."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


# ---------------------------------------------------------------------------------------------------------- pictures


def straight(epsilon: float, delta: float, x: np.ndarray) -> np.ndarray:
    return np.minimum(1, np.minimum(math.exp(epsilon) * x + delta, 1 - math.exp(-epsilon) * (1 - delta - x)))


def laplace(epsilon: float, x: np.ndarray) -> np.ndarray:
    middle = 1 - math.exp(-epsilon) / (4 * np.maximum(x, 1e-300))
    return np.where(
        x < math.exp(-epsilon) / 2, math.exp(epsilon) * x, np.where(x > 0.5, 1 - math.exp(-epsilon) * (1 - x), middle)
    )


@pytest.mark.parametrize("panel", [0, 1], ids=["all", "magnified"])
@pytest.mark.parametrize(
    ("family", "epsilon", "delta"),
    [
        ("approximate", 1.0, 1e-6),
        ("approximate", 1.0, 0.2),
        ("approximate", 4.0, 0.0),
        ("approximate", 0.0, 0.0),
        ("approximate", 80.0, 0.0),
        ("gaussian", 1.0, 1e-6),
        ("gaussian", 8.0, 1e-2),
        ("laplace", 2.0, 0.0),
    ],
)
def test_the_claimed_curve_is_where_the_formula_says(family: str, epsilon: float, delta: float, panel: int) -> None:
    finding = replace(SOUND, family=family, epsilon=epsilon, delta=delta)
    picture = drawings(shown(finding), "panel")[panel]
    x, y, across, up = drawn(picture, "claimed")
    if family == "gaussian":
        formula = lambda a: ndtr(ndtri(np.clip(a, 0, 1)) + mu_for(epsilon, delta))  # noqa: E731
    else:
        formula = lambda a: laplace(epsilon, a) if family == "laplace" else straight(epsilon, delta, a)  # noqa: E731
    # A point is rounded to 0.1 units; its power must be the formula's somewhere within 0.1 units of it.
    low, _, high = (np.clip(read_at(picture, across + step), 0, 1) for step in (-0.1, 0.0, 0.1))
    bottom, top = (read_at(picture, up + step, "up", "y") for step in (0.1, -0.1))
    assert np.all(formula(low) <= top + 1e-9) and np.all(formula(high) >= bottom - 1e-9)
    assert np.all(np.diff(x) >= 0) and np.all(np.diff(y) >= -1e-12)
    assert (x[0], x[-1], y[-1]) == pytest.approx((0, 1, 1))
    if family == "approximate":  # the corner, which a grid would cut off
        corner = (1 - delta) / (1 + math.exp(epsilon))
        assert np.min(np.hypot(x - corner, y - (1 - corner))) < (2e-3 if panel == 0 else 2e-2)


def read_at(panel: ElementTree.Element, raw: np.ndarray, side: str = "across", along: str = "x") -> np.ndarray:
    """Raw positions to shares, by a path through them."""
    probe = ElementTree.fromstring(ElementTree.tostring(panel))
    path = ElementTree.SubElement(probe, "path", {"class": "probe"})
    path.set("d", "M" + "L".join(f"{v} {v}" for v in raw))
    return drawn(probe, "probe")[0 if along == "x" else 1]


@pytest.mark.parametrize("panel", [0, 1], ids=["all", "magnified"])
def test_the_measured_curve_and_its_band_pass_through_what_was_measured(panel: int) -> None:
    picture = drawings(shown(SOUND), "panel")[panel]
    x, y, _, _ = drawn(picture, "measured")
    for false_alarms, power in zip(SEEN.false_alarms, SEEN.power, strict=True):
        assert np.min(np.abs(x - false_alarms) + np.abs(y - power)) < 2e-3
    x, y, _, _ = drawn(picture, "band")
    for side in (SEEN.low, SEEN.high):
        for false_alarms, power in zip(SEEN.false_alarms, side, strict=True):
            assert np.min(np.abs(x - false_alarms) + np.abs(y - power)) < 2e-3


@pytest.mark.parametrize("panel", [0, 1], ids=["all", "magnified"])
def test_a_curve_goes_from_never_to_always(panel: int) -> None:
    """Scores of two values give two thresholds at most, and the line between them may hide on the frame."""
    few = Measured((0.0, 0.0), (1.0, 0.0), (0.998, 0.0), (1.0, 0.002))
    for measured in (few, Measured((0.0,), (1.0,), (0.998,), (1.0,))):
        picture = drawings(shown(replace(BROKEN, measured=measured)), "panel")[panel]
        x, y, _, _ = drawn(picture, "measured")
        assert (x[0], y[0], x[-1], y[-1]) == pytest.approx((0, 0, 1, 1))
        assert np.min(np.hypot(x, y - 1)) < 1e-3
        assert len(list(picture.iter("circle"))) == len(measured.power)  # the ends are not measured


def test_magnifying_does_not_lift_a_line_between_two_points() -> None:
    """Straight on paper would be 10% at 0.1% false alarms: above a claim that the attack never exceeded."""
    few = Measured((0.0001, 1.0), (0.01, 1.0), (0.009, 0.99), (0.011, 1.0))
    picture = drawings(shown(replace(SOUND, measured=few)), "panel")[1]
    _, _, across, up = drawn(picture, "measured")
    tick = next(text for text in picture.iter("text") if text.text == "0.1%" and "across" in (text.get("class") or ""))
    (at,) = read_at(picture, np.array([np.interp(float(tick.get("x") or ""), across, up)]), "up", "y")
    assert at == pytest.approx(0.01 + 0.99 * (1e-3 - 1e-4) / (1 - 1e-4), rel=0.05)


@pytest.mark.parametrize("panel", [0, 1], ids=["all", "magnified"])
def test_the_forbidden_region_lies_above_the_claim(panel: int) -> None:
    picture = drawings(shown(SOUND), "panel")[panel]
    _, _, across, up = drawn(picture, "claimed")
    _, _, region_across, region_up = drawn(picture, "forbidden")
    frame = next(element for element in picture.iter("rect"))
    left, top = float(frame.get("x") or ""), float(frame.get("y") or "")
    assert region_across[:-1] == pytest.approx(across) and region_up[:-1] == pytest.approx(up)
    assert (region_across[-1], region_up[-1]) == (left, top)  # closed through the corner of perfect detection


@pytest.mark.parametrize("panel", [0, 1], ids=["all", "magnified"])
def test_guessing_is_the_diagonal(panel: int) -> None:
    x, y, _, _ = drawn(drawings(shown(SOUND), "panel")[panel], "guessing")
    assert x == pytest.approx([0, 1]) and y == pytest.approx([0, 1])


def test_the_order_of_the_points_does_not_matter() -> None:
    for finding in (SOUND, BROKEN):  # the second has two thresholds without any false alarm
        seen = finding.measured
        assert seen is not None
        turned = Measured(*(tuple(reversed(row)) for row in (seen.false_alarms, seen.power, seen.low, seen.high)))
        assert shown(replace(finding, measured=turned)) == shown(finding)


@pytest.mark.parametrize(
    ("runs", "rarest", "labels"),
    [
        (20_000, 0.0, ["0", "0.01%", "0.1%", "1%", "10%", "100%"]),  # never seen: up to about once in 10,000
        (20_000, 0.00002, ["0", "0.001%", "0.01%", "0.1%", "1%", "10%", "100%"]),
        (2_000_000, 0.0, ["0", "0.0001%", "0.01%", "1%", "100%"]),
        (20_000_000, 0.0, ["0", "0.000001%", "0.0001%", "0.01%", "1%", "100%"]),
        (20_000_000, 0.02, ["0", "1%", "10%", "100%"]),  # no threshold went lower, so there is nothing to see
        (10, 0.5, ["0", "1%", "10%", "100%"]),
        (10**12, 1e-12, ["0", "0.000001%", "0.0001%", "0.01%", "1%", "100%"]),
    ],
)
def test_the_magnified_panel_goes_down_to_what_was_seen(runs: int, rarest: float, labels: list[str]) -> None:
    seen = Measured((rarest, 1.0), (0.6, 1.0), (0.5, 0.9), (0.7, 1.0))
    panel = drawings(shown(replace(SOUND, runs=runs, measured=seen)), "panel")[1]
    ticks = [text for text in panel.iter("text") if "across" in (text.get("class") or "")]
    assert [tick.text for tick in ticks] == labels
    places = [float(tick.get("x") or "") for tick in ticks]
    room = [3.2 * (len(one.text or "") + len(other.text or "")) for one, other in pairwise(ticks)]
    assert np.all(np.diff(places) > room)  # about 6 units a letter, half of each label


def test_a_picture_says_in_words_what_it_shows() -> None:
    text = shown(BROKEN)
    (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert (
        "rang in 100% of the runs on the right table (band: 99.8% to 100%) and in 0% of those on the wrong one; "
        "the claim allows at most 0% there. Epsilon is at least 7.5 with 99% confidence (threshold): REFUTED."
    ) in caption
    for panel in drawings(text, "panel"):
        assert panel.get("role") == "img"
        assert words(caption) in (panel.get("aria-label") or "")
        labels = " ".join(element.text or "" for element in panel.iter("text"))
        assert "False alarms" in labels and "Power" in labels
    legend = words(re.findall(r'<ul class="legend">(.*?)</ul>', text)[0])
    for key in ("measured", "confidence band", "claim allows", "forbidden", "guessing"):
        assert key in legend


def test_an_excess_that_does_not_refute_is_explained() -> None:
    def caption(low: float, bound: float = 0.5) -> str:
        seen = Measured((0.2, 1.0), (0.56, 1.0), (low, 0.9), (0.6, 1.0))  # the claim allows 54.4%
        return re.findall(r"<figcaption>(.*?)</figcaption>", shown(replace(SOUND, measured=seen, lower_bound=bound)))[0]

    assert "at most 54.4% there, and so small an excess can be luck." in caption(0.5)
    assert "at most 54.4% there; the band lies above that" in caption(0.55)
    assert "at most 54.4% there. Epsilon" in caption(0.55, bound=1.5)
    assert "at most 54.4% there; what refutes it lies between the thresholds drawn" in caption(0.5, bound=1.5)


def test_no_picture_where_nothing_was_measured() -> None:
    for empty in (None, Measured((), (), (), ())):
        text = shown(replace(SOUND, method="one-run", measured=empty, note="many in one run"))
        assert "<figure" not in text and "in pictures" not in text and 'href="#' not in text
        assert "many in one run" in words(text)


def test_a_claim_without_such_a_curve_is_refused() -> None:
    with pytest.raises(InputError, match="laplace"):
        shown(replace(SOUND, family="laplace"))

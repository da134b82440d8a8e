"""The one style sheet of every page: light and dark, phone and paper."""

from __future__ import annotations

from adumbra.report.svg import INKS

__all__ = ["STYLE"]

_PAGE = {"page": ("#fbfbf9", "#14171b"), "red-soft": ("#fdeeec", "#3a1b19"), "slate-soft": ("#eef1f4", "#272d35")}
_DARK = {
    "ground": "#1b1f25",
    "text": "#e7e9ec",
    "quiet": "#a7b0bb",
    "line": "#3a424c",
    "faint": "#7d8792",
    "blue": "#86b6ff",
    "teal": "#6fc6ea",
    "orange": "#f2a65f",
    "shade": "#ff8a3d",
    "purple": "#f08fd0",
    "olive": "#d9bd4a",
    "green": "#6cc795",
    "red": "#ff9086",
    "slate": "#c9d0d9",
}
"""The inks of figures on a dark ground."""

_LIGHT_THEME = {name: light for name, (light, _) in _PAGE.items()} | INKS
_DARK_THEME = {name: dark for name, (_, dark) in _PAGE.items()} | {name: _DARK[name] for name in INKS}


def _root(theme: dict[str, str]) -> str:
    return ":root{" + ";".join(f"--{name}:{colour}" for name, colour in theme.items()) + "}"


_FIGURES = "".join(
    f'svg [{what}="{colour}"]{{{what}:var(--{name})}}' for name, colour in INKS.items() for what in ("fill", "stroke")
)
"""A figure holds its light colours as attributes, and no classes for them: found by value, they follow the page."""

STYLE = (
    f"""
{_root(_LIGHT_THEME)}
@media screen and (prefers-color-scheme:dark){{{_root(_DARK_THEME)}}}
{_FIGURES}
"""
    + """*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:1.5rem 1.25rem 3rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .8rem;overflow-wrap:anywhere}
h1::first-letter{text-transform:uppercase}
h2{font-size:1.3rem;margin:2.2rem 0 .6rem;overflow-wrap:anywhere}
h3,h4,h5,h6{font-size:1.05rem;margin:0 0 .6rem;overflow-wrap:anywhere}
p{max-width:75ch;overflow-wrap:anywhere}
.banner{max-width:none;margin:0 0 1.2rem;padding:.6rem 1rem;border:2px solid;border-radius:8px;font-weight:600;
background:var(--red-soft);color:var(--red)}
.note{max-width:none;border-left:4px solid var(--slate);border-radius:0 8px 8px 0;padding:.6rem 1rem;margin:1rem 0;
background:var(--slate-soft);color:var(--slate)}
.note strong{font-size:1.1rem;margin-right:.2em}
.caution,.private{border-left-color:var(--red);background:var(--red-soft);color:var(--red)}
.mark{display:inline-block;border:1px solid;border-radius:99px;padding:0 .6em;font-size:.82rem;font-weight:600;
background:var(--slate-soft);color:var(--slate)}
.mark.bad{background:var(--red-soft);color:var(--red)}
.scroll{overflow-x:auto;margin:.8rem 0;background:var(--ground);border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.84rem;line-height:1.4;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--quiet);padding:.6rem .7rem .3rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .42rem}
th:first-child,td:first-child{padding-left:.7rem}
th{font-weight:600;color:var(--quiet);vertical-align:bottom;line-height:1.25}
tbody{border-top:1px solid var(--line);break-inside:avoid}
td,td.long,.remark td,dd{overflow-wrap:anywhere}
td>div{min-width:min-content;overflow-wrap:break-word}
td.short>div,.mark{white-space:nowrap}
td.long>div{min-width:9.5em;overflow-wrap:anywhere}
.remark td{padding-top:0;color:var(--quiet)}
a{color:inherit;text-decoration-color:var(--quiet);text-underline-offset:.15em;font-weight:600}
.bar{width:76px;height:10px;vertical-align:baseline}
.facts{margin:.8rem 0;padding:.3rem 1rem;background:var(--ground);border:1px solid var(--line);border-radius:8px;
font-size:.92rem}
.facts div{display:grid;grid-template-columns:minmax(8rem,14rem) 1fr;gap:.2rem 1.2rem;padding:.4rem 0;
border-top:1px solid var(--line);break-inside:avoid}
.facts div:first-child{border-top:0}
dt{color:var(--quiet);font-weight:600;overflow-wrap:anywhere}dd{margin:0}
details{margin:1.2rem 0;border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;background:var(--ground)}
details .facts{border:0;padding:0}
summary{cursor:pointer;font-weight:600}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;
margin:.4rem 0 .6rem;font-size:.84rem;color:var(--quiet)}
.legend li{display:flex;align-items:center;gap:.45rem}
.key{width:28px;height:14px;flex:none}
figure{margin:0 0 1.2rem;padding:1rem;background:var(--ground);border:1px solid var(--line);border-radius:8px;
break-inside:avoid}
.panels{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem}
.panels svg{max-width:100%;height:auto}
.panels .panel{flex:1 1 300px;min-width:0;max-width:480px}
figcaption{font-size:.92rem;margin-top:.5rem;max-width:95ch;overflow-wrap:anywhere}
pre{background:var(--ground);border:1px solid var(--line);border-radius:8px;padding:.7rem 1rem;overflow-x:auto;
white-space:pre-wrap;overflow-wrap:anywhere}
code{font-size:.9em;overflow-wrap:anywhere}
@media screen and (max-width:760px){
main{padding:1rem .8rem 2rem}
table,caption,tbody,tr,td{display:block}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tbody{padding:.5rem .7rem}
th,td,td:first-child{display:flex;gap:.8rem;padding:.12rem 0}
td::before{content:attr(data-label);flex:0 0 11em;color:var(--quiet);font-weight:400}
td>div,td.long>div,td.short>div{min-width:0;flex:1;overflow-wrap:anywhere;white-space:normal}
.remark td,.remark td:first-child{display:block;padding-top:.3rem}.remark td::before{content:none}
.facts div{grid-template-columns:1fr}
figure{padding:.7rem .5rem}
}
@media print{
@page{margin:14mm}
:root{--page:#fff}
html,body{font-size:10pt}
main{max-width:none;padding:0}
.scroll{overflow:visible;border:0}
table{font-size:7pt}th,td{padding:.3rem .2rem}
td .mark{font-size:7pt;padding:0 .4em}
.bar{width:36px}
details::details-content{content-visibility:visible;block-size:auto}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
)

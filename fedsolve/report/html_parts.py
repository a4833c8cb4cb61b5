"""Pages in one file: no scripts, nothing fetched from anywhere, readable on a phone and on paper, by day and by night.

Whatever is not `Html` already is escaped, so that a name such as `<b>` stays a name, and control characters are written
out.
"""

from __future__ import annotations

import base64
import html
import platform
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from fedsolve.text import printable
from fedsolve.version import __version__

LONG_CELL = 40  # characters of a cell that are broken into lines
MOST_SHOWN = 40  # rows of a long table


class Html(str):
    """Text that is markup already."""


Content: TypeAlias = "str | Html | Iterable[Content]"


def markup(content: Content) -> Html:
    """Content as markup; what was plain text is escaped."""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(html.escape(printable(content, lines=True)))
    return Html("".join(map(markup, content)))


def element(tag: str, *content: Content, **attributes: str | None) -> Html:
    """One element; `class_` is its class, `aria_label` its aria-label, and an attribute that is None is left out."""
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    said = "".join(f' {name}="{html.escape(value)}"' for name, value in given)
    return Html(f"<{tag}{said}>{markup(content)}</{tag}>")


def paragraph(*content: Content, kind: str | None = None) -> Html:
    return element("p", *content, class_=kind)


def section(title: str, *content: Content, level: int = 2) -> Html:
    """A part with its heading; one inside another part has a heading of the next level."""
    return element("section", element(f"h{level}", title), *content)


def folded(title: Content, *content: Content) -> Html:
    """A part that opens when it is asked for, and on paper."""
    return element("details", element("summary", title), *content)


def code(text: str, label: str = "Text to copy") -> Html:
    """Text as it was typed. It scrolls sideways, so it can be focused, and then scrolled by keys."""
    return element("pre", element("code", text), tabindex="0", role="group", aria_label=label)


def badge(text: str, good: bool | None) -> Html:
    """A word that stands out: good, bad, or neither."""
    return element("span", text, class_={True: "badge good", False: "badge bad", None: "badge"}[good])


def figures(pairs: Iterable[tuple[str, str]]) -> Html:
    """A few numbers to see first, each with its name."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs))


def table(
    headings: Sequence[tuple[str, bool]],
    rows: Iterable[Sequence[Content]],
    foot: Sequence[Content] = (),
    label: str | None = None,
) -> Html:
    """Headings say whether numbers stand below them: these are set to the right. The first cell of a row is its
    heading. Long texts are broken into lines. A table wider than the page scrolls, also by keys; `label` is what a
    screen reader calls it."""
    looks = ["number" if numeric else None for _, numeric in headings]

    def line(cells: Sequence[Content], scope: str) -> Html:
        made = []
        for place, (cell, look) in enumerate(zip(cells, looks, strict=True)):
            head = scope == "col" or not place
            long = look is None and isinstance(cell, str) and not isinstance(cell, Html) and len(cell) > LONG_CELL
            shown = "long" if long else look
            made.append(element("th" if head else "td", cell, class_=shown, scope=scope if head else None))
        return element("tr", *made)

    parts = [
        element("thead", line([heading for heading, _ in headings], "col")),
        element("tbody", *(line(row, "row") for row in rows)),
    ]
    if foot:
        parts.append(element("tfoot", line(foot, "row")))
    said = label or f"Table: {', '.join(heading for heading, _ in headings if heading)}"
    return element("div", element("table", *parts), class_="scroll", tabindex="0", role="group", aria_label=said)


def long_table(
    headings: Sequence[tuple[str, bool]],
    rows: Sequence[Sequence[Content]],
    foot: Sequence[Content] = (),
    *,
    label: str,
    more: str = "sites",
) -> Html:
    """A table whose first rows are shown; further ones, `more` by name, open when they are asked for."""
    first, rest = rows[:MOST_SHOWN], rows[MOST_SHOWN:]
    shown = table(headings, first, foot, label)
    if not rest:
        return shown
    title = f"{len(rest):,} more {more}"
    return Html(shown + folded(title, table(headings, rest, label=f"{label}: {title}")))


def image(png: bytes, description: str) -> Html:
    """A picture inside the page. On a phone it keeps a size at which it can be read, and scrolls."""
    data = base64.b64encode(png).decode("ascii")
    drawn = Html(f'<img alt="{html.escape(printable(description))}" src="data:image/png;base64,{data}">')
    return element("div", drawn, class_="scroll", tabindex="0", role="group", aria_label="Figure")


def versions() -> str:
    """What made this page."""
    made = f"fedsolve {__version__}, Python {platform.python_version()}, NumPy {np.__version__}"
    return f"Made on {time.strftime('%Y-%m-%d')} with {made}"


def page(title: str, *content: Content) -> str:
    """The whole file."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{markup(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{element('h1', title)}\n"
        + "\n".join(map(markup, content))
        + f"\n</main>\n{element('footer', versions())}\n</body>\n</html>\n"
    )


_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --quiet: #60646c; --line: #d9dce1; --paper: #fff; --card: #f5f6f8;
  --good: #18794e; --bad: #c0272d; --warn: #8a5a00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --quiet: #a0a6af; --line: #3a3f47; --paper: #16181b;
  --card: #1f2226; --good: #4cc38a; --bad: #ff8589; --warn: #f0b849 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", sans-serif }
main, footer { max-width: 72rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1rem 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere }
.quiet, footer, caption { color: var(--quiet); font-size: .875rem }
.badge { font-weight: 600; color: var(--warn); border: 1px solid; border-radius: .35rem; padding: .05rem .45rem;
  white-space: nowrap }
.good { color: var(--good) } .bad { color: var(--bad) }
.warning { border-left: .25rem solid var(--warn); padding-left: .75rem }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .6rem; margin: 1rem 0 }
dl div { background: var(--card); border-radius: .5rem; padding: .5rem .75rem }
dt { color: var(--quiet); font-size: .8rem } dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto; max-width: 100% }
.scroll:focus-visible, pre:focus-visible, summary:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px }
ul { padding-left: 1.25rem } li { margin: .25rem 0; max-width: 46rem; overflow-wrap: anywhere }
table { border-collapse: separate; border-spacing: 0; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; white-space: nowrap }
th { font-weight: 400 } th[scope=row] { position: sticky; left: 0; background: var(--paper) }
th[scope=row] { max-width: 24rem; overflow-wrap: break-word }
@media (max-width: 40rem) { th[scope=row] { white-space: normal; max-width: 42vw } }
thead th { color: var(--quiet); font-weight: 600; border-bottom: 1px solid var(--line); vertical-align: bottom;
  white-space: normal }
tfoot th, tfoot td { border-top: 1px solid var(--line); font-weight: 600 }
.long { white-space: normal; overflow-wrap: break-word } td.long { min-width: 16rem }
td small { display: block; color: var(--quiet); font-size: .75rem }
.number { text-align: right }
img { display: block; width: 100%; min-width: 38rem; height: auto; background: #fff; border-radius: .5rem }
pre { background: var(--card); border-radius: .5rem; padding: .75rem; overflow-x: auto; font-size: .8125rem }
details { border-bottom: 1px solid var(--line); padding: .4rem 0 } summary { cursor: pointer; font-weight: 600 }
@media print { :root { color-scheme: light; --ink: #000; --quiet: #444; --line: #bbb; --paper: #fff; --card: #f3f3f3;
  --good: #18794e; --bad: #c0272d; --warn: #8a5a00 }
  body { font-size: 10pt } img { min-width: 0 } th[scope=row] { max-width: none; white-space: normal }
  .scroll, pre { overflow: visible; white-space: pre-wrap } img, tr, dl { break-inside: avoid }
  h2, h3, summary { break-after: avoid } details::details-content { content-visibility: visible; height: auto } }
"""

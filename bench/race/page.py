# SPDX-License-Identifier: Apache-2.0
"""The page of a run: one file that needs no network, for desktops and phones, light and dark; tables that sort."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from . import look, pictures, table
from .peers import TITLES

Result = dict[str, Any]

STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1f2328; --muted: #6e7781; --line: #d8dee4; --soft: #f6f8fa; --ahead: #2b8a3e; --behind: #d9480f; --even: #868e96; --link: #0b5bd3; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --ink: #e6edf3; --muted: #8d96a0; --line: #30363d; --soft: #161b22; --ahead: #51cf66; --behind: #ff922b; --link: #58a6ff; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--back); color: var(--ink); max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0.4rem 0; } h2 { margin: 1.8rem 0 0.4rem; font-size: 1.15rem; } a { color: var(--link); }
p { max-width: 52rem; } .muted, th { color: var(--muted); }
.sums { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.6rem; margin: 1rem 0; }
.sums div { border: 1px solid var(--line); border-radius: 8px; padding: 0.5rem 0.8rem; } .sums b { display: block; font-size: 1.4rem; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: 3px 8px; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; cursor: pointer; white-space: nowrap; user-select: none; } th:hover { color: var(--ink); }
th[aria-sort=ascending]::after { content: " \\2191"; } th[aria-sort=descending]::after { content: " \\2193"; }
th:first-child, td:first-child { text-align: left; min-width: 13rem; } td { white-space: nowrap; } td:first-child, td.met, td.missed { white-space: normal; }
td.best { font-weight: 600; } td.ours { font-weight: 600; color: var(--ink); }
summary { cursor: pointer; } details[open] summary { font-weight: 600; }
pre { background: var(--soft); padding: 0.6rem; overflow-x: auto; border-radius: 6px; font-size: 12px; text-align: left; max-width: min(70rem, 88vw); }
.bar { display: inline-block; width: 6rem; height: 0.7em; position: relative; background: linear-gradient(var(--line), var(--line)) no-repeat 33.3% 0 / 1px 100%; }
.bar i { position: absolute; top: 0; height: 100%; border-radius: 2px; } .bar i.ahead { background: var(--ahead); } .bar i.behind { background: var(--behind); } .bar i.even { background: var(--even); }
.ratio { display: inline-block; min-width: 3.2rem; font-variant-numeric: tabular-nums; } .ratio.ahead { color: var(--ahead); } .ratio.behind { color: var(--behind); }
.missed { color: var(--behind); } .met { color: var(--ahead); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 29rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; }
@media (max-width: 44rem) {
  table, tbody { display: block; } thead { display: block; } thead tr { display: flex; flex-wrap: wrap; gap: 0.2rem 0.7rem; padding: 0.3rem 0; }
  th, th:first-child { padding: 0; border: 0; min-width: 0; font-size: 12px; }
  tbody tr { display: block; border: 1px solid var(--line); border-radius: 8px; margin: 0.5rem 0; padding: 0.4rem 0.6rem; }
  td { display: flex; align-items: center; justify-content: space-between; gap: 1rem; border: 0; padding: 1px 0; } td:empty { display: none; }
  td:first-child { display: block; font-weight: 600; } td:not(:first-child)::before { content: attr(data-name); color: var(--muted); font-weight: 400; }
}
"""

SCRIPT = """
for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const table = head.closest("table"), column = [...head.parentNode.children].indexOf(head), body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => row.children[column].dataset.value;
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    const sign = up ? 1 : -1;
    return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
  };
  body.append(...[...body.rows].sort(order));
});
"""


def cell(name: str, text: str, value: Any, title: str = "", style: str = "") -> str:
    hint = f' title="{escape(title)}"' if title else ""
    return f'<td data-name="{escape(name)}" data-value="{escape(str(value))}" class="{style}"{hint}>{text}</td>'


def bar(ratio: float) -> str:
    """From 1, a third of the way, to the ratio; ten times is the end on either side of a logarithmic axis."""
    low, high = -0.5, 1.0  # powers of ten that the bar spans: 0.32 to 10
    at = (min(max(math.log10(ratio), low), high) - low) / (high - low) * 100
    one = -low / (high - low) * 100
    kind = style_of(ratio)
    return f'<span class="bar"><i class="{kind}" style="left:{min(at, one):.1f}%;width:{max(abs(at - one), 1):.1f}%"></i></span>'


def style_of(ratio: float) -> str:
    return {pictures.AHEAD: "ahead", pictures.EVEN: "even", pictures.BEHIND: "behind"}[pictures.colour(ratio)]


def ways(result: Result, peer: str) -> str:
    """Every way a library has for the case, for whoever points at its time."""
    told = [f"{entry['way'] or peer}: " + (entry["error"] if entry.get("error") else table.duration(entry["seconds"]))
            for entry in result.get("entries", []) if entry["peer"] == peer]
    return "\n".join(told)


def row(result: Result, peers: list[str]) -> str:
    seconds, ratio, name = result["seconds"], result["ratio"], result["case"]["name"]
    best = result["best_peer"]
    plan = result.get("explain", "")
    first = f"<details><summary>{escape(name)}</summary><pre>{escape(plan)}</pre></details>" if plan else escape(name)
    cells = [cell("case", first, name)]
    if ratio:
        words = f"{look.ratio(ratio)} {TITLES[best]}: {table.duration(seconds['sow'])} and {table.duration(seconds[best])}"
        cells.append(cell("beside the best", f'{bar(ratio)} <span class="ratio {style_of(ratio)}">{pictures.times(ratio)}</span>', ratio, words))
    else:
        cells.append(cell("beside the best", "", ""))
    cells.append(cell("sow", table.duration(seconds.get("sow")), seconds.get("sow", ""), ways(result, "sow"), "ours"))
    cells += [cell(TITLES[peer], table.duration(seconds.get(peer)), seconds.get(peer, ""), ways(result, peer), "best" if peer == best else "")
              for peer in peers]
    cells.append(cell("floor", table.duration(result["floor"]), result["floor"], "the fewest bytes the case must move, over the speed of a plain copy"))
    told = table.goal(result)
    cells.append(cell("goal", escape(told), told, "", "met" if told.endswith("met") else "missed" if told else ""))
    strategy = result.get("strategy") or table.strategy(result)
    cells.append(cell("strategy", escape(strategy), strategy))
    return "<tr>" + "".join(cells) + "</tr>"


def html_table(results: list[Result], peers: list[str]) -> str:
    names = ["case", "beside the best", "sow", *[TITLES[peer] for peer in peers], "floor", "goal", "strategy"]
    head = "".join(f'<th scope="col" title="sort by {escape(name)}">{escape(name)}</th>' for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(row(result, peers) for result in results)}</tbody></table>"


def sections(results: list[Result]) -> dict[str, list[Result]]:
    """Cases by family, then the lines of growth and the rest by their own group."""
    found: dict[str, list[Result]] = {}
    for result in results:
        group = result["case"]["group"]
        found.setdefault(pictures.family(result["case"]) if group == "table" else group, []).append(result)
    return found


def totals(results: list[Result]) -> str:
    ratios = [result["ratio"] for result in results if result["ratio"]]
    goals = [all(goal["met"] for goal in result["goals"]) for result in results if result["goals"]]
    parts = [(str(len(results)), "cases")]
    if ratios:
        parts += [(str(sum(ratio > 1 for ratio in ratios)), "ahead of the best of the others"),
                  (str(sum(ratio <= 1 for ratio in ratios)), "not ahead")]
    if goals:
        parts.append((f"{sum(goals)} of {len(goals)}", "goals met"))
    return '<div class="sums">' + "".join(f"<div><b>{number}</b>{words}</div>" for number, words in parts) + "</div>"


def page(machine: str, results: list[Result], drawn: dict[str, str], heat: dict[str, str] | None = None) -> str:
    peers = table.peers_of(results)
    tables = "".join(f"<h2>{escape(name)}</h2>{html_table(members, peers)}" for name, members in sections(results).items())
    figures = "".join(f"<figure>{picture}</figure>" for picture in drawn.values())
    if figures:
        figures = f'<h2>How time grows</h2><div class="figures">{figures}</div>'
    elif not pictures.available():
        figures = "<p class='muted'>Pictures of growth are drawn where matplotlib is installed.</p>"
    glance = "".join(f"<figure>{picture}</figure>" for picture in (heat or {}).values())
    folded = " A name opens the plan: how sow did it." if any(result.get("explain") for result in results) else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>sow: the race</title>
<style>{STYLE}</style></head><body>
<h1>The race</h1>
<p class="muted">{escape(machine)}</p>
{totals(results)}
<p>Each library in a process of its own, in its fastest way of saying the case; turns interleaved, medians. The floor is the fewest
bytes a case must move over the speed of a plain copy beside it. sow's results are exact sums, the same bits on any number of
threads, with every index checked.</p>
<p>Green is ahead, orange behind, grey within 5%. Headings sort; times tell more when pointed at.{folded}</p>
{glance}
{tables}
{figures}
<script>{SCRIPT}</script></body></html>
"""

"""Charts of the benchmarks, as SVG that stands alone, in light and in dark."""

from xml.sax.saxutils import escape

COLOURS = ["#8a8f98", "#2f6fde", "#7b4fc9", "#d9822b", "#2a9d6f", "#c2453d", "#5c7080", "#b08d00"]
WIDTH, LABEL, BAR, GAP, HEAD = 860, 330, 16, 6, 34
STYLE = """text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .head { font-weight: 600 } .axis { fill: #57606a }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .axis { fill: #9198a1 } }"""


def bars(title, groups):
    """Bars, by group: `[(group, [(name, value)])]`."""
    most = max(value for _, values in groups for _, value in values)
    names = list(dict.fromkeys(name for _, values in groups for name, _ in values))
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    parts, y = [f'<text class="axis" x="8" y="20">{escape(title)}</text>'], HEAD
    for group, values in groups:
        parts.append(f'<text class="head" x="8" y="{y + 14}">{escape(group[0].upper() + group[1:])}</text>')
        y += 22
        for name, value in values:
            length = max((WIDTH - LABEL - 70) * value / most, 1)
            parts.append(f'<text x="24" y="{y + 13}">{escape(name)}</text>'
                         f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour[name]}"/>'
                         f'<text x="{LABEL + length + 6:.1f}" y="{y + 13}">{value:.1f}</text>')
            y += BAR + GAP
        y += 10
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" role="img" aria-label="{escape(title)}">\n'
            f"<style>{STYLE}</style>\n{body}\n</svg>\n")

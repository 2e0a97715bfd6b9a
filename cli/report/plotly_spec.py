"""Charts as Plotly figures: plain values whose colours are names (`@fa3/0.4`) that the page turns into its theme's."""

from math import log10
from typing import Any, assert_never

from cli.report.charts import Axis, Chart, GridChart, Series, TimelineChart, XYChart
from cli.report.palette import colour_of

Spec = dict[str, Any]
SIZE = 8
FAINT, FULL = 0.10, 0.62
SHADES = (0.88, 0.58)
DASHES = {"line": "solid", "dash": "dash"}


def plotly_spec(chart: Chart) -> Spec:
    """Give data, layout and height of one chart."""
    match chart:
        case XYChart():
            data, layout, height = _xy(chart)
        case GridChart():
            data, layout, height = _grid(chart)
        case TimelineChart():
            data, layout, height = _timeline(chart)
        case _:
            assert_never(chart)
    return {"name": chart.name, "tags": dict(chart.tags), "data": data, "layout": layout, "height": height}


def _xy(chart: XYChart) -> tuple[list[Spec], Spec, int]:
    layout: Spec = {"xaxis": _axis(chart.x), "yaxis": _axis(chart.y), "hovermode": "closest"}
    marks = sorted(chart.marks, key=lambda mark: mark.x)
    layout["shapes"] = [
        {
            "type": "line",
            "x0": mark.x,
            "x1": mark.x,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": f"@{mark.colour}", "width": 1.5, "dash": "dot"},
        }
        for mark in marks
    ]
    layout["annotations"] = [
        {
            "x": log10(mark.x) if chart.x.log else mark.x,
            "y": 1.0 - 0.07 * (i % 2),
            "yref": "paper",
            "text": f"<b>{mark.text}</b>",
            "showarrow": False,
            "xanchor": "left",
            "xshift": 5,
            "font": {"color": f"@{mark.colour}"},
            "bgcolor": "@card/0.8",
        }
        for i, mark in enumerate(marks)
    ]
    data = [_series(series) for series in chart.series]
    if not chart.flip:
        return data, layout, 440
    for spec in data:
        spec["x"], spec["y"] = spec["y"], spec["x"]
        if "error_y" in spec:
            spec["error_x"] = spec.pop("error_y")
    layout["xaxis"], layout["yaxis"] = layout["yaxis"], layout["xaxis"]
    return data, layout, 90 + 34 * len(chart.x.ticks)


def _series(s: Series) -> Spec:
    points = s.style == "points"
    spec: Spec = {
        "type": "scatter",
        "name": s.name,
        "x": list(s.x),
        "y": list(s.y),
        "mode": "markers" if points else "lines",
        "tags": {k: list(v) if isinstance(v, tuple) else v for k, v in s.tags.items()},
        "hovertemplate": "%{text}<extra></extra>" if s.hover else "%{x:.4g}, %{y:.4g}<extra>%{fullData.name}</extra>",
    }
    if s.hover:
        spec["text"] = list(s.hover)
    if points:
        line = {"width": 1, "color": "@card"}
        spec["marker"] = {"color": f"@{s.colour}/0.85", "size": SIZE, "symbol": s.symbol, "line": line}
    else:
        spec["line"] = {"color": f"@{s.colour}", "width": 2, "dash": DASHES[s.style]}
    if s.high:
        spec["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - y for high, y in zip(s.high, s.y, strict=True)],
            "arrayminus": [y - low for low, y in zip(s.low, s.y, strict=True)],
            "color": f"@{s.colour}",
            "thickness": 1.2,
            "width": 3,
        }
    return spec


def _grid(chart: GridChart) -> tuple[list[Spec], Spec, int]:
    columns, rows = [value for value, _ in chart.x.ticks], [value for value, _ in chart.y.ticks]
    data: list[Spec] = []
    for owner in sorted({cell.owner for cell in chart.cells}):
        own = {(c.x, c.y): c for c in chart.cells if c.owner == owner}
        found = [[own.get((x, y)) for x in columns] for y in rows]
        colour = colour_of(owner)
        data.append(
            {
                "type": "heatmap",
                "name": owner,
                "x": columns,
                "y": rows,
                "z": [[c.strength if c else None for c in line] for line in found],
                "text": [[c.text if c else "" for c in line] for line in found],
                "customdata": [[c.hover if c else "" for c in line] for line in found],
                "texttemplate": "%{text}",
                "textfont": {"color": "@ink"},
                "hovertemplate": "%{customdata}<extra></extra>",
                "hoverongaps": False,
                "zmin": 0,
                "zmax": 1,
                "xgap": 2,
                "ygap": 2,
                "showscale": False,
                "colorscale": [[0, f"@{colour}/{FAINT}"], [1, f"@{colour}/{FULL}"]],
            }
        )
        data.append(_key(owner, colour))
    for series in chart.points:
        spec = _series(series)
        spec["marker"] = {
            "color": f"@{series.colour}",
            "size": 11,
            "symbol": "circle",
            "line": {"width": 2, "color": "@card"},
        }
        data.append(spec)
    layout = {"xaxis": _axis(chart.x, grid=False), "yaxis": _axis(chart.y, grid=False), "hovermode": "closest"}
    return data, layout, 110 + 34 * len(rows)


def _key(owner: str, colour: str) -> Spec:
    marker = {"symbol": "square", "size": 13, "color": f"@{colour}/{FULL}"}
    return {"type": "scatter", "x": [None], "y": [None], "mode": "markers", "name": owner, "marker": marker}


def _timeline(chart: TimelineChart) -> tuple[list[Spec], Spec, int]:
    data: list[Spec] = []
    layout: Spec = {"barmode": "overlay", "bargap": 0.0, "hovermode": "closest", "annotations": []}
    count = len(chart.panels)
    gap = 0.22
    share = (1 - gap * (count - 1)) / count
    end = max(bar.start + bar.length for panel in chart.panels for bar in panel.bars)
    for i, panel in enumerate(chart.panels):
        top = 1 - i * (share + gap)
        suffix = "" if i == 0 else str(i + 1)
        for kind in ("launch", "tiles", "merge"):
            own = [bar for bar in panel.bars if bar.kind == kind]
            if own:
                data.append(
                    {
                        "type": "bar",
                        "orientation": "h",
                        "name": kind,
                        "legendgroup": kind,
                        "showlegend": i == 0 or kind not in {bar.kind for bar in chart.panels[0].bars},
                        "base": [round(bar.start, 3) for bar in own],
                        "x": [round(bar.length, 3) for bar in own],
                        "y": [bar.row for bar in own],
                        "width": 1,
                        "xaxis": f"x{suffix}",
                        "yaxis": f"y{suffix}",
                        "marker": {"color": [f"@{kind}/{SHADES[bar.shade]}" for bar in own], "line": {"width": 0}},
                        "hovertemplate": kind + " on slot %{y}: from %{base:.1f} µs for %{x:.1f} µs<extra></extra>",
                    }
                )
        axis: Spec = {"range": [0, end * 1.01], "title": {"text": "µs"}, "anchor": f"y{suffix}", "gridcolor": "@line"}
        axis |= {"zeroline": False, "showgrid": False, "tickformat": ","}
        layout[f"xaxis{suffix}"] = axis
        layout[f"yaxis{suffix}"] = {
            "domain": [max(0.0, top - share), top],
            "range": [-0.5, panel.rows - 0.5],
            "title": {"text": f"{panel.rows} slots"},
            "tickformat": ",d",
            "nticks": min(4, panel.rows),
            "showgrid": False,
            "zeroline": False,
            "anchor": f"x{suffix}",
        }
        layout["annotations"].append(
            {
                "text": panel.title,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": top,
                "yshift": 6,
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "align": "left",
            }
        )
    return data, layout, 130 + 235 * count


def _axis(axis: Axis, *, grid: bool = True) -> Spec:
    spec: Spec = {"title": {"text": axis.label}, "showgrid": grid, "gridcolor": "@line", "zeroline": False}
    if axis.log:
        spec["type"] = "log"
    if axis.ticks:
        spec |= {"tickvals": [v for v, _ in axis.ticks], "ticktext": [t for _, t in axis.ticks]}
    if axis.span:
        spec["range"] = [log10(v) for v in axis.span] if axis.log else list(axis.span)
    return spec

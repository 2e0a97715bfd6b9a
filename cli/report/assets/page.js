"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const tables = [...document.querySelectorAll("table")];
  const state = { shape: data.first, phase: "all", off: new Set() };
  const PAPER = 660;
  const narrow = window.matchMedia("(max-width: 640px)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // The state lives in the address, so that a view can be shared.
  function read() {
    const query = new URLSearchParams(location.hash.slice(1));
    const shapes = [...document.getElementById("shape").options].map((option) => option.value);
    if (shapes.includes(query.get("shape"))) state.shape = query.get("shape");
    const phases = [...document.querySelectorAll("[data-phase]")].map((b) => b.dataset.phase);
    if (phases.includes(query.get("phase"))) state.phase = query.get("phase");
    if (query.has("off")) state.off = new Set(query.get("off").split(",").filter(Boolean));
    if (["light", "dark"].includes(query.get("theme"))) root.dataset.theme = query.get("theme");
  }
  function write() {
    const query = new URLSearchParams({ shape: state.shape, phase: state.phase });
    if (state.off.size) query.set("off", [...state.off].join(","));
    if (root.dataset.theme) query.set("theme", root.dataset.theme);
    history.replaceState(null, "", "#" + query);
  }

  const wanted = {
    shape: (value) => state.shape === "all" || value === state.shape,
    phase: (value) => state.phase === "all" || value === state.phase,
    backend: (value) => !state.off.has(value),
  };
  const single = (tags) => Object.entries(tags).filter(([, value]) => !Array.isArray(value));
  const fits = (tags) => single(tags).every(([name, value]) => !wanted[name] || wanted[name](value));

  // "@fa3/0.4" becomes the theme's colour with that opacity.
  function coloured(value, style) {
    if (typeof value === "string" && value.startsWith("@")) {
      const [name, alpha] = value.slice(1).split("/");
      const hex = style.getPropertyValue("--" + name).trim();
      if (alpha === undefined) return hex;
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
      return `rgba(${r},${g},${b},${alpha})`;
    }
    if (Array.isArray(value)) {
      return typeof value.at(-1) === "number" ? value : value.map((each) => coloured(each, style));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, style)]));
    }
    return value;
  }

  // Points outside the filter stay as pale context, those inside carry the colour.
  function filtered(trace) {
    const tags = trace.tags || {};
    if (!fits(tags)) return [];
    const lists = Object.entries(tags).filter(([name, value]) => Array.isArray(value) && wanted[name]);
    if (!lists.length) return [trace];
    const inside = trace.x.map((_, i) => lists.every(([name, value]) => wanted[name](value[i])));
    const pick = (keep) => {
      const part = { ...trace };
      for (const key of ["x", "y", "text"]) if (part[key]) part[key] = part[key].filter((_, i) => keep(inside[i]));
      return part;
    };
    const rest = pick((is) => !is);
    rest.marker = { ...trace.marker, color: "@muted/0.16", size: 6, line: { width: 0 } };
    rest.showlegend = false;
    rest.hoverinfo = "skip";
    delete rest.hovertemplate;
    const own = pick((is) => is);
    own.showlegend = own.x.length > 0;
    return [rest, own];
  }

  // A width is given for paper only; on a screen charts follow their card.
  function layoutOf(spec, width, paper) {
    const font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: "@ink" };
    const small = narrow.matches;
    const layout = {
      ...spec.layout,
      font,
      height: spec.height,
      width: paper,
      autosize: !paper,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: small ? 48 : 62, r: small ? 8 : 18, t: spec.layout.barmode ? 76 : spec.data.length > 1 ? 54 : 14, b: 50 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", yref: "paper", font: { color: "@muted" } },
      hoverlabel: { bgcolor: "@card", bordercolor: "@line", font: { ...font }, align: "left" },
      dragmode: false,
    };
    if (spec.layout.barmode) layout.legend = { ...layout.legend, x: 1, xanchor: "right", y: small ? 1.15 : 1.09 };
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis/.test(key)) continue;
      layout[key] = { automargin: true, tickfont: { color: "@muted" }, linecolor: "@line", ...layout[key] };
      layout[key].title = { standoff: 8, font: { color: "@muted", size: 12.5 }, ...layout[key].title };
    }
    const letters = Math.floor(width / (small ? 7 : 7.4));
    const size = small ? 10 : 12;
    layout.annotations = (layout.annotations || []).map((a) => ({ ...a, text: wrapped(a.text, letters), font: { ...a.font, size } }));
    return layout;
  }
  function wrapped(text, width) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if ((lines.at(-1) + " " + word).length > width) lines.push(word);
      else lines[lines.length - 1] = (lines.at(-1) + " " + word).trim();
    }
    return lines.join("<br>");
  }

  function draw(paper) {
    const style = getComputedStyle(root);
    const jobs = figures.map((figure, i) => {
      const spec = data.charts[i];
      const seen = fits(spec.tags) && !(state.shape === "all" && "shape" in spec.tags);
      figure.hidden = !seen;
      const plot = figure.querySelector(".plot");
      if (!seen) return null;
      let traces = spec.data.flatMap(filtered);
      if (narrow.matches) traces = traces.map((t) => (t.type === "heatmap" ? { ...t, texttemplate: "" } : t));
      const config = { displayModeBar: false, responsive: true, scrollZoom: false };
      return Plotly.react(plot, coloured(traces, style), coloured(layoutOf(spec, paper || plot.clientWidth, paper), style), config);
    });
    for (const section of document.querySelectorAll("section")) {
      const hint = section.querySelector(".hint");
      if (!hint) continue;
      hint.hidden = [...section.querySelectorAll("figure")].some((figure) => !figure.hidden);
      hint.textContent = state.shape === "all"
        ? "Choose one attention shape above to see its pictures."
        : "There are no measurements of this kind for this shape and phase.";
    }
    return Promise.all(jobs);
  }

  function list() {
    for (const table of tables) {
      const rows = [...table.tBodies[0].rows];
      for (const row of rows) {
        const { shape, shapes, phase, phases, backend } = row.dataset;
        row.hidden = !(
          (shape === undefined || wanted.shape(shape)) &&
          (shapes === undefined || state.shape === "all" || shapes.split("|").includes(state.shape)) &&
          (phase === undefined || wanted.phase(phase)) &&
          (phases === undefined || state.phase === "all" || phases.split("|").includes(state.phase)) &&
          (backend === undefined || wanted.backend(backend))
        );
      }
      const shown = rows.filter((row) => !row.hidden).length;
      table.querySelector(".count").textContent = shown === rows.length ? "" : `· ${shown} of ${rows.length} shown`;
    }
  }

  function sortBy(table, index, head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[index];
      return cell.dataset.order === undefined ? cell.textContent : Number(cell.dataset.order);
    };
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (typeof x === "number" && typeof y === "number") return x - y;
      if (typeof x === "number" || typeof y === "number") return typeof x === "number" ? -1 : 1;
      return x.localeCompare(y, "en", { numeric: true });
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    table.tBodies[0].append(...rows);
  }

  function show() {
    document.getElementById("shape").value = state.shape;
    for (const b of document.querySelectorAll(".segments button")) b.setAttribute("aria-pressed", String(b.dataset.phase === state.phase));
    for (const b of document.querySelectorAll(".chips button")) b.setAttribute("aria-pressed", String(!state.off.has(b.dataset.backend)));
    list();
    return draw().then(() => { root.dataset.ready = "true"; });
  }
  function changed() { write(); return show(); }

  document.getElementById("shape").addEventListener("change", (event) => { state.shape = event.target.value; changed(); });
  for (const b of document.querySelectorAll(".segments button")) {
    b.addEventListener("click", () => { state.phase = b.dataset.phase; changed(); });
  }
  for (const b of document.querySelectorAll(".chips button")) {
    b.addEventListener("click", () => {
      const name = b.dataset.backend;
      if (!state.off.delete(name)) state.off.add(name);
      changed();
    });
  }
  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, i) => head.firstChild.addEventListener("click", () => sortBy(table, i, head)));
  }
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    changed();
  });
  dark.addEventListener("change", () => draw());
  narrow.addEventListener("change", () => draw());
  window.addEventListener("hashchange", () => { read(); show(); });
  let before;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; draw(PAPER); });
  window.addEventListener("afterprint", () => { if (before) root.dataset.theme = before; else delete root.dataset.theme; draw(); });
  read();
  show();
})();

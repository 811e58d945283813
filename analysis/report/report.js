// SPDX-License-Identifier: MIT
"use strict";
// What a page of results does where scripts run: a point or a bar of a figure leads to its runs;
// runs are filtered by level; a run is drawn over time on linked axes, and a second run over it;
// all of that stands in the address. Without it the page has everything but this.
(async () => {
  const make = (tag, words, attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = words;  // never as mark-up: names and logs are other people's words
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const button = (words, does, attributes = {}) => {
    const made = make("button", words, {type: "button", ...attributes});
    made.addEventListener("click", does);
    return made;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // -- the data: deflated; four bytes that say how long the JSON is, the JSON, columns of numbers

  const packed = Uint8Array.from(atob(document.getElementById("runs-data").textContent.trim()),
    (sign) => sign.charCodeAt(0));
  const opened = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const whole = await new Response(opened).arrayBuffer();
  const view = new DataView(whole), jsonLength = view.getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 4, jsonLength)));
  const columns = new Map();
  const numbers = (column) => {
    const key = `${column.at} ${column.n} ${column.lo} ${column.step}`;
    if (!columns.has(key)) {
      const from = 4 + jsonLength + column.at, values = new Array(column.n);
      for (let index = 0, number = 0; index < column.n; index++) {
        if (column.step === undefined) {
          const exact = view.getFloat64(from + 8 * index, true);
          values[index] = Number.isNaN(exact) ? null : exact;
          continue;
        }
        number = (number + view.getUint16(from + 2 * index, true)) & 0xffff;
        values[index] = column.lo + column.step * number;
      }
      columns.set(key, values);
    }
    return columns.get(key);
  };

  // -- charts

  const value = (number) => number == null ? "–" : String(Number(number.toPrecision(4)));
  const marks = (times) => (plot) => {
    plot.ctx.save();
    plot.ctx.strokeStyle = css("--degraded");
    plot.ctx.setLineDash([4, 4]);
    for (const time of times) {
      const x = plot.valToPos(time, "x", true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      plot.ctx.beginPath();
      plot.ctx.moveTo(x, plot.bbox.top);
      plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
      plot.ctx.stroke();
    }
    plot.ctx.restore();
  };
  // Horizontal lines with names: what the path can carry or hold.
  const limitLines = (limits) => (plot) => {
    const {ctx, bbox} = plot, px = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--soft");
    ctx.setLineDash([7 * px, 3 * px]);
    ctx.font = `${11 * px}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    for (const [name, level] of limits) {
      const y = plot.valToPos(level, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.fillText(`${name} ${value(level)}`, bbox.left + bbox.width - 4 * px, y - 2 * px);
    }
    ctx.restore();
  };
  // From zero; a limit far above all values would press them to the ground, so it is left out.
  const fromZero = (limits) => (_, low, high) => {
    const near = limits.map(([, level]) => level).filter((level) => level <= 3 * high);
    return [Math.min(0, low || 0), 1.12 * Math.max(...near, high || 0) || 1];
  };
  // The darkest lines of the page's colours are not seen on dark paper.
  const seen = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    const dark = css("--paper") === "#14171c", light = 0.3 * red + 0.59 * green + 0.11 * blue;
    return dark && light < 90 ? `color-mix(in srgb, ${colour} 45%, #ffffff)` : colour;
  };

  const draw = (place, run, other, legs, onZoom) => {
    const key = `run ${run.name}`, plots = [];
    const both = [[run, []], ...(other ? [[other, [5, 4]]] : [])];
    const titles = [...new Set(both.flatMap(([one]) => one.panels.map((panel) => panel.title)))];
    const linesOf = (title) => both.flatMap(([one, dash]) =>
      one.panels.filter((panel) => panel.title === title)
      .flatMap((panel) => panel.lines.filter((line) => legs || !line.leg).map((line) => ({
        ...line, dash: line.leg ? [1, 3] : dash, width: line.leg ? 1 : 1.5,
        label: other ? `${line.name}, ${one === run ? "this run" : "the other"}` : line.name}))));
    const end = Math.max(0, ...titles.flatMap(linesOf).map((line) => numbers(line.t).at(-1)));
    const ink = css("--ink"), grid = {stroke: css("--line"), width: 1};
    for (const title of titles) {
      const lines = linesOf(title);
      if (!lines.length) continue;
      const {zero, limits} = both.flatMap(([one]) => one.panels)
        .find((panel) => panel.title === title);
      const joined = uPlot.join(lines.map((line) => [numbers(line.t), numbers(line.v)]))
        .map((column) => [...column]);
      // all charts of a run have one stretch of time
      if (joined[0][0] > 0) joined.forEach((column, index) => column.unshift(index ? null : 0));
      if (joined[0].at(-1) < end)
        joined.forEach((column, index) => column.push(index ? null : end));
      plots.push(new uPlot({
        title,
        width: Math.max(240, place.clientWidth),
        height: 170,
        cursor: {
          sync: {key, scales: ["x", null]},
          drag: {x: true, y: false, setScale: false},
          bind: {dblclick: () => () => { onZoom(null); return null; }},
        },
        scales: {x: {time: false}, ...(zero ? {y: {range: fromZero(limits)}} : {})},
        axes: [
          {stroke: ink, grid, ticks: grid, size: 34, values: (_, ticks) => ticks.map((tick) =>
            `${tick} s`)},
          {stroke: ink, grid, ticks: grid, size: 62},
        ],
        series: [
          {label: "time", value: (_, time) => time == null ? "–" : `${time.toFixed(2)} s`},
          ...lines.map((line) => ({label: line.label, stroke: seen(line.colour), width: line.width,
            dash: line.dash,
            spanGaps: !line.gaps, points: {show: joined[0].length < 60}, value: (_, number) =>
              value(number)})),
        ],
        hooks: {
          draw: [marks(run.changes.map(([time]) => time)), limitLines(limits)],
          setSelect: [(plot) => {
            const {left, width} = plot.select;
            if (width < 3) return;
            const ends = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
            plot.setSelect({left: 0, width: 0}, false);
            onZoom(ends);
          }],
        },
      }, joined, place));
      plots.at(-1).whole = [0, joined[0].at(-1)];
    }
    return plots;
  };
  const zoomTo = (plots, ends) => {
    for (const plot of plots) {
      const [min, max] = ends || plot.whole;
      plot.setScale("x", {min, max});
    }
  };

  // The keyboard on charts: ← → the cursor, + − the zoom around it, 0 all of it.
  const keys = (place, plots, onZoom) => {
    let at = 0.5;
    place.addEventListener("keydown", (event) => {
      if (event.target !== place || !plots.length || event.altKey || event.ctrlKey ||
        event.metaKey) return;
      const {min, max} = plots[0].scales.x, time = min + at * (max - min);
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") at = Math.min(1, Math.max(0,
        at + (event.key === "ArrowLeft" ? -0.02 : 0.02)));
      else if (event.key === "+" || event.key === "=") onZoom([time - (time - min) / 2,
        time + (max - time) / 2]);
      else if (event.key === "-") onZoom([Math.max(plots[0].whole[0], time - 2 * (time - min)),
        Math.min(plots[0].whole[1], time + 2 * (max - time))]);
      else if (event.key === "0") onZoom(null);
      else return;
      event.preventDefault();
      for (const plot of plots)
        plot.setCursor({left: at * plot.bbox.width / devicePixelRatio, top: 20}, false);
    });
  };

  // -- what is told of a run in words

  const table = (heads, rows, attributes = {}) => {
    const made = make("table", "", attributes), head = made.createTHead().insertRow(),
      body = made.createTBody();
    for (const words of heads) head.append(make("th", words, {scope: "col"}));
    for (const cells of rows) {
      const row = body.insertRow();
      for (const words of cells) row.append(words instanceof Node ? words : make("td", words));
    }
    const around = make("div", "", {class: "scroll", tabindex: "0", role: "region",
      "aria-label": heads[0]});
    around.append(made);
    return around;
  };
  const badge = (verdict) => {
    const cell = make("td", ""), known = ["ok", "degraded", "invalid"].includes(verdict);
    cell.append(make("span", verdict, {class: `badge ${known ? verdict : "none"}`}));
    return cell;
  };
  const difference = (run, other) => {
    const rows = Object.keys(run.told).filter((name) => run.told[name] !== other.told[name])
      .map((name) => [name, run.told[name], other.told[name] ?? "–"]);
    return rows.length ? table(["What differs", "This run", "The other"], rows, {class: "differs"})
      : make("p", "Nothing that was asked of them, or made them, differs.");
  };
  const folded = (title, ...inside) => {
    const made = make("details", "");
    made.append(make("summary", title), ...inside);
    return made;
  };
  const copied = (pre) => {
    const made = button("Copy", async () => {
      try { await navigator.clipboard.writeText(pre.textContent); made.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(pre);
        made.textContent = "Selected: copy it with the keyboard"; }
    });
    return made;
  };
  const tell = (item, run) => {
    const checks = item.querySelector(".checks"), more = item.querySelector(".more");
    if (!more || more.childNodes.length) return;
    if (checks && run.checks.length)
      checks.replaceChildren(table(["Check", "Verdict", "Asked", "Got", "Reason"],
        run.checks.map(([name, verdict, asked, got, reason]) => [name, badge(verdict), asked, got,
          reason])));
    if (run.qdiscs.length)
      more.append(folded("Queueing disciplines, as tc shows them",
        ...run.qdiscs.flatMap(([dev, before, after]) => [
        make("p", `${dev}, before the load and after it`, {class: "soft"}),
        make("pre", after ? `${before}\n\n${after}` : before, {tabindex: "0"})])));
    if (run.commands) {
      const pre = make("pre", run.commands, {class: "commands", tabindex: "0"});
      more.append(folded("Commands", copied(pre), pre));
    }
  };

  // -- one experiment's list of runs

  const lists = [...document.querySelectorAll("[data-runs]")].map((section) => {
    const anchor = section.dataset.runs, runs = data[anchor] || [],
      alone = "alone" in section.dataset;
    const items = [...section.querySelectorAll("[data-run]")];
    const byName = new Map(runs.map((run) => [run.name, run]));
    const state = {chosen: {}, cells: [], open: new Set(), other: "", zoom: null, legs: false};
    const outer = section.querySelector("details");
    const factors = {};
    for (const run of runs)
      for (const [name, words] of [["matrix", run.matrix], ["verdict", run.told.verdict || ""],
        ...Object.entries(run.levels)])
        if (words) (factors[name] ||= new Set()).add(words);
    const bar = section.querySelector(".filters");
    const counted = make("p", "", {class: "soft", "aria-live": "polite"});
    const chips = [];
    for (const [name, levels] of alone ? [] : Object.entries(factors)) {
      if (levels.size < 2) continue;
      const group = make("div", "", {class: "chips", role: "group", "aria-label": name});
      group.append(make("span", `${name} `, {class: "soft"}));
      for (const words of levels) {
        const chip = button(words, () => { state.chosen[name] = state.chosen[name] === words ? "" :
          words; show(); keep(); }, {"aria-pressed": "false"});
        chips.push([chip, name, words]);
        group.append(chip);
      }
      bar.append(group);
    }
    let cameFrom = null;
    const all = button("All runs", () => { state.chosen = {}; state.cells = []; show(); keep(); });
    const back = button("Back to the figure", () => goBack());
    if (!alone) bar.append(counted, all, back);
    bar.hidden = false;
    const goBack = () => {
      if (!cameFrom) return;
      cameFrom.scrollIntoView({block: "center"});
      cameFrom.focus();
      cameFrom = null;
      back.hidden = true;
    };

    const drawn = new Map();  // name of a run -> how it is drawn, and its charts
    const undraw = (name) => { for (const plot of drawn.get(name)?.plots || []) plot.destroy();
      drawn.delete(name); };
    const zoom = (ends) => {
      state.zoom = ends && ends[1] > ends[0] ? ends : null;
      for (const {plots} of drawn.values()) zoomTo(plots, state.zoom);
      keep();
    };
    const redraw = (item) => {
      const run = byName.get(item.dataset.run), place = item.querySelector(".charts");
      if (!run || !place || !item.open) return;
      tell(item, run);
      if (!run.panels.length) return;
      const other = byName.get(state.other) === run ? undefined : byName.get(state.other);
      const how = `${other?.name} ${state.legs}`;
      if (drawn.get(run.name)?.how === how) return;
      undraw(run.name);
      const tools = make("p", "", {class: "soft"});
      if (runs.length > 1) tools.append(button(other ? "Compare with none" :
        "Compare others with this run", () => {
        state.other = other ? "" : run.name; show(); keep();
      }));
      if (run.panels.some((panel) => panel.lines.some((line) => line.leg)))
        tools.append(button("The tunnel's other legs", () => { state.legs = !state.legs; show();
          keep(); }, {"aria-pressed": String(state.legs)}));
      tools.append(button("All of its time", () => zoom(null)),
        " Drag over a chart to zoom into all. Double-click to see all. Keys: ← → + − 0.");
      const charts = make("div", "", {tabindex: "0", role: "group",
        "aria-label": `Charts of ${run.name}: arrows move, plus and minus zoom, 0 shows all`});
      place.replaceChildren(tools);
      if (other) place.append(make("p", `Dashed: ${other.name}`), difference(run, other));
      if (run.changes.length) {
        const said = run.changes.slice(0, 12).map(([time, words]) =>
          `${Number(time.toFixed(3))} s: ${words}`);
        const rest = run.changes.length - said.length;
        place.append(make("p", `Marked: ${said.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`,
          {class: "soft"}));
      }
      place.append(charts);
      const plots = draw(charts, run, other, state.legs, zoom);
      keys(charts, plots, zoom);
      if (state.zoom) zoomTo(plots, state.zoom);
      drawn.set(run.name, {how, plots});
    };
    const show = () => {
      let shown = 0;
      for (const item of items) {
        const run = byName.get(item.dataset.run);
        const fits = !run || (Object.entries(state.chosen).every(([name, words]) => !words ||
          (name === "matrix" ? run.matrix : name === "verdict" ? run.told.verdict :
            run.levels[name]) === words)
          && (!state.cells.length || state.cells.includes(run.cell)));
        item.hidden = !fits;
        shown += fits;
        if (item.open && fits) redraw(item);
      }
      for (const [chip, name, words] of chips)
        chip.setAttribute("aria-pressed", String(state.chosen[name] === words));
      const filtered = state.cells.length || Object.values(state.chosen).some(Boolean);
      all.hidden = !filtered;
      back.hidden = !cameFrom;
      counted.textContent = `${shown} of ${items.length} runs` + (state.other ?
        ` · compared with ${state.other}` : "");
    };
    const keep = () => {
      const words = new URLSearchParams();
      for (const [name, level] of Object.entries(state.chosen))
        if (level) words.set(`f.${name}`, level);
      for (const cell of state.cells) words.append("cell", cell);
      for (const name of state.open) words.append("run", name);
      if (state.other) words.set("with", state.other);
      if (state.zoom)
        words.set("zoom", state.zoom.map((time) => Number(time.toFixed(4))).join("-"));
      if (state.legs) words.set("legs", "1");
      const kept = words.toString();
      history.replaceState(null, "", kept ? `#in=${anchor}&${kept}` : `#${anchor}`);
    };
    const restore = (words) => {
      state.chosen = {};
      for (const [name, level] of words)
        if (name.startsWith("f.")) state.chosen[name.slice(2)] = level;
      state.cells = words.getAll("cell").filter((cell) => runs.some((run) => run.cell === cell));
      state.open = new Set(words.getAll("run").filter((name) => byName.has(name)));
      state.other = byName.has(words.get("with")) ? words.get("with") : "";
      const ends = (words.get("zoom") || "").split("-").map(Number);
      state.zoom = ends.length === 2 && ends[1] > ends[0] ? ends : null;
      state.legs = words.get("legs") === "1";
      outer.open = true;
      for (const item of items) item.open = state.open.has(item.dataset.run);
      show();
      (items.find((one) => state.open.has(one.dataset.run)) || section).scrollIntoView();
    };
    for (const item of items) {
      item.addEventListener("toggle", () => {
        if (item.open) { state.open.add(item.dataset.run); redraw(item); }
        else { undraw(item.dataset.run); state.open.delete(item.dataset.run); }
        if (!alone) keep();
      });
      item.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        if (cameFrom) { goBack(); return; }
        item.open = false;
        item.querySelector("summary").focus();
      });
    }
    // A point's or a bar's runs: nothing else in the list, one that is alone open, the focus on the
    // first.
    const only = (cells, from) => {
      state.chosen = {};
      state.cells = cells;
      cameFrom = from;
      outer.open = true;
      const its = items.filter((item) => cells.includes(byName.get(item.dataset.run)?.cell));
      for (const item of items) if (item.open && !its.includes(item)) item.open = false;
      if (its.length === 1) its[0].open = true;
      show();
      keep();
      section.scrollIntoView();
      its[0]?.querySelector("summary").focus({preventScroll: true});
    };
    for (const one of document.querySelectorAll(`[data-show-runs="${CSS.escape(anchor)}"]`)) {
      one.hidden = false;
      one.addEventListener("click", () => {
        state.chosen = {matrix: one.dataset.matrix};
        state.cells = [];
        cameFrom = one;
        outer.open = true;
        show(); keep();
        section.scrollIntoView();
        outer.querySelector("summary").focus({preventScroll: true});
      });
    }
    show();
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      for (const name of [...drawn.keys()]) undraw(name);
      show();
    });
    if (alone) for (const item of items) { state.open.add(item.dataset.run); redraw(item); }
    return {anchor, restore, only, has: (cell) => runs.some((run) => run.cell === cell)};
  });

  // -- figures: one stop of the tab key each, arrows go from point to point

  for (const picture of document.querySelectorAll(".picture")) {
    const spots = [...picture.querySelectorAll(".spot")];
    if (!spots.length) continue;
    picture.setAttribute("role", "group");
    picture.setAttribute("aria-label", "Points of this figure; arrows go from one to the next");
    spots.forEach((spot, index) => {
      spot.tabIndex = index ? -1 : 0;
      spot.addEventListener("keydown", (event) => {
        const by = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
        if (event.key === " ") { event.preventDefault(); spot.click(); }
        if (!by) return;
        event.preventDefault();
        spot.tabIndex = -1;
        const next = spots.at((index + by) % spots.length);
        next.tabIndex = 0;
        next.focus();
      });
      spot.addEventListener("click", (event) => {
        const cells = spot.dataset.cells.split(" "), list = lists.find((one) =>
          cells.some(one.has));
        if (!list) return;
        event.preventDefault();
        list.only(cells.filter(list.has), spot);
      });
    });
  }

  // -- the address

  const follow = () => {
    const words = new URLSearchParams(location.hash.slice(1));
    lists.find((list) => list.anchor === words.get("in"))?.restore(words);
  };
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = "";
})();

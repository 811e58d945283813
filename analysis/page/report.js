"use strict";
// What a page of results does where scripts run: filter runs by level, draw a run over time on linked
// axes, lay a second run over it, keep all of that in the address. Without it the page has everything but this.
(() => {
  const data = JSON.parse(document.getElementById("runs-data").textContent);
  const make = (tag, words, attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = words;  // never as mark-up: names and logs are other people's words
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const numbers = (packed) => {
    const bytes = Uint8Array.from(atob(packed.of), (sign) => sign.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({length: bytes.length / 2},
      (_, index) => packed.lo + packed.step * view.getUint16(2 * index, true));
  };

  // -- charts

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

  const draw = (place, run, other) => {
    const key = `run ${run.name}`;
    const plots = [];
    const ends = [run, other].filter(Boolean).flatMap((one) => one.panels.flatMap((panel) => panel.lines.map((line) => line.t.lo + line.t.step * 65535)));
    const end = Math.max(0, ...ends);
    const titles = [...new Set([run, other].filter(Boolean).flatMap((one) => one.panels.map((panel) => panel.title)))];
    for (const title of titles) {
      const lines = [[run, []], ...(other ? [[other, [5, 4]]] : [])].flatMap(([one, dash]) =>
        one.panels.filter((panel) => panel.title === title).flatMap((panel) =>
          panel.lines.map((line) => ({...line, dash, label: other ? `${line.name}, ${one === run ? "this run" : "the other"}` : line.name}))));
      const joined = uPlot.join(lines.map((line) => [numbers(line.t), numbers(line.v)]));
      // all charts of a run have one stretch of time
      if (joined[0][0] > 0) joined.forEach((column, index) => column.unshift(index ? null : 0));
      if (joined[0].at(-1) < end) joined.forEach((column, index) => column.push(index ? null : end));
      const ink = css("--ink"), grid = {stroke: css("--line"), width: 1};
      plots.push(new uPlot({
        title,
        width: Math.max(260, place.clientWidth),
        height: 170,
        cursor: {sync: {key, scales: ["x", null]}, drag: {x: true, y: false}},
        scales: {x: {time: false}},
        axes: [
          {stroke: ink, grid, ticks: grid, size: 34, values: (_, ticks) => ticks.map((tick) => `${tick} s`)},
          {stroke: ink, grid, ticks: grid, size: 62},
        ],
        series: [
          {label: "time", value: (_, value) => value == null ? "–" : `${value.toFixed(2)} s`},
          ...lines.map((line) => ({
            label: line.label, stroke: css("--paper") === "#14171c" && line.colour === "#000000" ? "#ffffff" : line.colour,
            width: 1.5, dash: line.dash, spanGaps: true,
            value: (_, value) => value == null ? "–" : String(Number(value.toPrecision(4))),
          })),
        ],
        hooks: {draw: [marks(run.changes)]},
      }, joined, place));
    }
    return plots;
  };

  const difference = (run, other) => {
    const table = make("table", "");
    const head = table.createTHead().insertRow();
    for (const words of ["What differs", "This run", "The other"]) head.append(make("th", words, {scope: "col"}));
    const body = table.createTBody();
    for (const name of Object.keys(run.told)) {
      if (run.told[name] === other.told[name]) continue;
      const row = body.insertRow();
      for (const words of [name, run.told[name], other.told[name]]) row.append(make("td", words));
    }
    return body.rows.length ? table : make("p", "Nothing that was asked of them, or made them, differs.");
  };

  // -- one experiment's list

  const lists = [...document.querySelectorAll("[data-runs]")].map((section) => {
    const anchor = section.dataset.runs, runs = data[anchor] || [];
    const items = [...section.querySelectorAll("[data-run]")];
    const byName = new Map(runs.map((run) => [run.name, run]));
    const state = {chosen: {}, open: "", other: ""};
    const factors = {};
    for (const run of runs)
      for (const [name, words] of [["matrix", run.matrix], ...Object.entries(run.levels)])
        (factors[name] ||= new Set()).add(words);
    const bar = section.querySelector(".filters");
    const counted = make("p", "", {class: "soft", "aria-live": "polite"});
    const chips = [];
    for (const [name, levels] of Object.entries(factors)) {
      if (levels.size < 2) continue;
      const group = make("div", "", {class: "chips", role: "group", "aria-label": name});
      group.append(make("span", `${name} `, {class: "soft"}));
      for (const words of levels) {
        const chip = make("button", words, {type: "button", "aria-pressed": "false"});
        chip.addEventListener("click", () => { state.chosen[name] = state.chosen[name] === words ? "" : words; show(); keep(); });
        chips.push([chip, name, words]);
        group.append(chip);
      }
      bar.append(group);
    }
    bar.append(counted);
    bar.hidden = false;

    const drawn = new Map();  // name of a run -> what other it is drawn with, and its charts
    const undraw = (name) => { for (const plot of drawn.get(name)?.plots || []) plot.destroy(); drawn.delete(name); };
    const redraw = (item) => {
      const run = byName.get(item.dataset.run), place = item.querySelector(".charts");
      if (!run || !place || !run.panels.length || !item.open) return;
      const other = byName.get(state.other) === run ? undefined : byName.get(state.other);
      if (drawn.get(run.name)?.other === other && drawn.has(run.name)) return;
      undraw(run.name);
      place.replaceChildren();
      const tools = make("p", "", {class: "soft"});
      const button = make("button", other ? "Compare with none" : "Compare others with this run", {type: "button"});
      button.addEventListener("click", () => { state.other = other ? "" : run.name; show(); keep(); });
      tools.append(button, ` Drag over a chart to zoom into all of them, double-click to see all again.`);
      place.append(tools);
      if (other) place.append(make("p", `Dashed: ${other.name}`), difference(run, other));
      drawn.set(run.name, {other, plots: draw(place, run, other)});
    };
    const show = () => {
      let shown = 0;
      for (const item of items) {
        const run = byName.get(item.dataset.run);
        const fits = !run || Object.entries(state.chosen).every(([name, words]) =>
          !words || (name === "matrix" ? run.matrix : run.levels[name]) === words);
        item.hidden = !fits;
        shown += fits;
        if (item.open && fits) redraw(item);
      }
      for (const [chip, name, words] of chips) chip.setAttribute("aria-pressed", String(state.chosen[name] === words));
      counted.textContent = `${shown} of ${items.length} runs` + (state.other ? ` · compared with ${state.other}` : "");
    };
    const keep = () => {
      const words = new URLSearchParams();
      for (const [name, level] of Object.entries(state.chosen)) if (level) words.set(`f.${name}`, level);
      if (state.open) words.set("run", state.open);
      if (state.other) words.set("with", state.other);
      const kept = words.toString();
      history.replaceState(null, "", kept ? `#in=${anchor}&${kept}` : `#${anchor}`);
    };
    const restore = (words) => {
      for (const [name, level] of words) if (name.startsWith("f.")) state.chosen[name.slice(2)] = level;
      state.open = byName.has(words.get("run")) ? words.get("run") : "";
      state.other = byName.has(words.get("with")) ? words.get("with") : "";
      section.querySelector("details").open = true;
      show();
      const item = items.find((one) => one.dataset.run === state.open);
      if (item) { item.open = true; redraw(item); item.scrollIntoView(); }
    };
    for (const item of items) {
      item.addEventListener("toggle", () => {
        if (item.open) { state.open = item.dataset.run; redraw(item); }
        else { undraw(item.dataset.run); if (state.open === item.dataset.run) state.open = ""; }
        keep();
      });
    }
    for (const button of document.querySelectorAll(`[data-show-runs="${CSS.escape(anchor)}"]`)) {
      button.hidden = false;
      button.addEventListener("click", () => {
        state.chosen = {matrix: button.dataset.matrix};
        section.querySelector("details").open = true;
        show(); keep();
        section.scrollIntoView();
      });
    }
    show();
    return {anchor, restore};
  });

  for (const pre of document.querySelectorAll("pre.commands")) {
    const button = make("button", "Copy", {type: "button"});
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(pre.textContent); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(pre); button.textContent = "Selected: copy it with the keyboard"; }
    });
    pre.before(button);
  }

  const words = new URLSearchParams(location.hash.slice(1));
  lists.find((list) => list.anchor === words.get("in"))?.restore(words);
})();

// SPDX-License-Identifier: MIT
// The question in other forms, and the curves as files.

import { note } from "./answer.js";
import { packets, tcLines } from "./client.js";
import { $, css, el, save } from "./dom.js";
import { current } from "./charts.js";
import { address, request } from "./state.js";

const FORMS = ["Command line", "YAML", "Python", "tc", "Link", "Folder"];
let form = FORMS[0], exported = null;

export function buildExports(finished) {
  for (const name of FORMS) {
    const button = el("button", { type: "button", textContent: name, onclick: () => choose(name) });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", "code");
    $("tabs").append(button);
  }
  $("tabs").addEventListener("keydown", event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], next = FORMS[FORMS.indexOf(form) + by];
    if (by && next) { choose(next); $("tabs").children[FORMS.indexOf(next)].focus(); }
  });
  $("copy").onclick = copy;
  for (const button of document.querySelectorAll("[data-get]")) {
    button.onclick = () => { const run = finished(); if (run) GETS[button.dataset.get](run); };
  }
  choose(form);
}

function choose(name) { form = name; showCode(); }

export function takeExports(accepted) {
  exported = accepted;
  $("as").classList.remove("none-yet");
  showCode();
}

async function showCode() {
  for (const button of $("tabs").children) {
    const chosen = button.textContent === form;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  if (!exported) return;
  const asked = form, of = exported;
  const text = {
    "Command line": () => of.exports.command, YAML: () => of.exports.file.trimEnd(),
    Python: () => of.exports.python, tc: () => tcLines(of.id), Link: address,
      Folder: () => of.folder,
  }[form]();
  const shown = await text;
  if (asked === form && of === exported) $("code").replaceChildren(...unbroken(shown));
}

// A text whose lines do not break after an option's hyphens.
function unbroken(text) {
  return text.split(/(?<![^\s])(--[\w.-]+)/).map((part, index) =>
    index % 2 ? el("span", { className: "option", textContent: part }) : part);
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("code").textContent);
  } catch {
    getSelection().selectAllChildren($("code"));
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

function csv(run) {
  const { curves, answer } = run, keys = ["mbit", "srtt_ms", "cwnd_pkts", "unacked_pkts", "bbr"];
  const names = ["goodput_mbit", "srtt_ms", "cwnd_pkts", "unacked_pkts", "bbr_state"];
  const lines = [["repetition", "t_s", "flow", ...names, "queue_ms", "drops", "marks"].join()];
  for (const [number, rep] of curves.reps) {
    curves.t.forEach((t, i) => {
      for (const flow of curves.accepted.flows) {
        const values = keys.map(key => rep.flows[flow.name]?.[key]?.[i] ?? "");
        const queue = ["delay_ms", "drops", "marks"].map(key => rep.queue[key]?.[i] ?? "");
        lines.push([number, t, flow.name, ...values, ...queue].join());
      }
    });
  }
  save(answer.name + ".csv", new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
}

const HEAD = 58, CAPTION = 20, GAP = 12, MARGIN = 16;

function layout() {
  const panels = current(), width = panels[0].u.width + 2 * MARGIN;
  const height = HEAD + panels.reduce((sum, own) => sum + own.height + CAPTION + GAP, 0) + 8;
  return { panels, width, height };
}

function png(run) {
  const { panels, width, height } = layout(), d = devicePixelRatio;
  const canvas = el("canvas", { width: width * d, height: height * d }),
    c = canvas.getContext("2d");
  const write = (text, x, y, font, colour) => { c.font = `${font} ${css("--sans")}`;
    c.fillStyle = colour; c.fillText(text, x, y); return c.measureText(text).width; };
  c.scale(d, d);
  c.fillStyle = css("--paper");
  c.fillRect(0, 0, width, height);
  write(run.answer.sentence, MARGIN, 26, "500 17px", css("--ink"));
  write(`${run.path} · seed ${run.seed} · ${run.answer.name}`, MARGIN, 45, "12px", css("--soft"));
  let y = HEAD;
  for (const own of panels) {
    const wide = write(own.panel.title, MARGIN, y + 13, "600 12px", css("--ink"));
    write(own.unit.textContent, MARGIN + wide + 5, y + 13, "12px", css("--soft"));
    y += CAPTION;
    c.drawImage(own.u.ctx.canvas, MARGIN, y, own.u.width, own.height);
    for (const item of own.labels || []) write(item.text, endsAt(own), y + item.y
      + own.u.over.offsetTop + 4, "12px", item.ink || css("--ref"));
    y += own.height + GAP;
  }
  canvas.toBlob(blob => save(run.answer.name + ".png", blob));
}

const endsAt = own => MARGIN + own.u.width - parseInt(css("--gutter")) + 8;
const escape = text => String(text).replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);

// Lines and texts, as the panels have them: a figure that can be edited.
function svg(run) {
  const { panels, width, height } = layout(), out = [];
  const text = (words, x, y, size, colour, more = "") =>
    out.push(
      `<text x="${x}" y="${y}" font-size="${size}" fill="${colour}"${more}>`
      + `${escape(words)}</text>`);
  const line = (x1, y1, x2, y2, colour, more = "") =>
    out.push(`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${colour}"${more}/>`);
  text(run.answer.sentence, MARGIN, 26, 17, css("--ink"), ' font-weight="500"');
  text(`${run.path} · seed ${run.seed} · ${run.answer.name}`, MARGIN, 45, 12, css("--soft"));
  let top = HEAD;
  for (const own of panels) {
    const { u } = own, left = MARGIN + u.over.offsetLeft, wide = u.over.clientWidth,
      tall = u.over.clientHeight;
    out.push(
      `<text x="${MARGIN}" y="${top + 13}" font-size="12" fill="${css("--ink")}">`
      + `<tspan font-weight="600">${escape(own.panel.title)}</tspan> `
      + `<tspan fill="${css("--soft")}">${escape(own.unit.textContent)}</tspan></text>`);
    top += CAPTION;
    const y0 = top + u.over.offsetTop, x = t => left + u.valToPos(t, "x"), y = v => y0
      + u.valToPos(v, "y");
    u.axes[1]._splits?.forEach((value, i) => {
      line(left, y(value), left + wide, y(value), css("--grid"));
      text(u.axes[1]._values[i], left - 6, y(value) + 4, 11, css("--soft"), ' text-anchor="end"');
    });
    line(left, y0 + tall, left + wide, y0 + tall, css("--edge"));
    if (own.reference[0] != null && own.reference[0] <= own.top) line(left, y(own.reference[0]),
      left + wide, y(own.reference[0]), css("--ref"), ' stroke-dasharray="4 4"');
    own.data.forEach((values, i) => {
      const style = u.series[i + 1], stroke = style.stroke();
      if (!style.width || stroke === "transparent") return;
      let path = "", before = null;
      values.forEach((value, j) => {
        if (value == null) return;
        const px = x(u.data[0][j]).toFixed(1), py = y(Math.min(value, own.isState ? value
          : own.top)).toFixed(1);
        path += before === null ? `M${px} ${py}` : own.isState ? `H${px}V${py}` : `L${px} ${py}`;
        before = py;
      });
      const dash = style.dash?.length ? ` stroke-dasharray="${style.dash.join(" ")}"` : "";
      if (path) out.push(
        `<path d="${path}" fill="none" stroke="${stroke}" stroke-width="${style.width}"${dash}/>`);
    });
    for (const item of own.labels || []) text(item.text, endsAt(own), y0 + item.y + 4, 12, item.ink
      || css("--ref"));
    if (own === panels[panels.length - 1]) {
      for (const [i, t] of u.axes[0]._splits.entries()) text(u.axes[0]._values[i], x(t), y0 + tall
        + 18, 11, css("--soft"), ' text-anchor="middle"');
    }
    top += own.height + GAP;
  }
  const head =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" `
    + `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`;
  const body = `<rect width="100%" height="100%" fill="${css("--paper")}"/>${out.join("\n")}`;
  save(run.answer.name + ".svg", new Blob([`${head}${body}</svg>\n`], { type: "image/svg+xml" }));
}

async function getPackets(run) {
  const button = document.querySelector("[data-get=packets]");
  button.disabled = true;
  button.textContent = "Recording …";
  try {
    save(run.answer.name + ".pcapng", await packets(request()));
  } catch (error) {
    note("bad", "Packets:", error.message);
  }
  button.disabled = false;
  button.textContent = "Packets";
}

const GETS = { csv, png, svg, packets: getPackets };

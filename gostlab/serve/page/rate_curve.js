// SPDX-License-Identifier: MIT
// The rate over time, drawn by hand: ten steps, each a share of the path's rate.

import { el, num } from "./dom.js";

const STEPS = 10, HEIGHT = 64, TOP = 1.5; // the highest step, in times the rate
const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

export function makeRateCurve(host, take) {
  let shares = new Array(STEPS).fill(1), rate = 20, length = 10, focus = 0, drawing = false;
  const picture = shape("svg", { viewBox: `0 0 200 ${HEIGHT}`, preserveAspectRatio: "none",
    class: "rate", role: "slider",
    tabindex: 0, "aria-label": "Rate over time: "
      + "arrows left and right choose a step, up and down change it",
    "aria-valuemin": 0.05, "aria-valuemax": TOP });
  const area = shape("path", { class: "rate-area" }), line = shape("path", { class: "rate-line" });
  const usual = shape("line", { class: "rate-usual", x1: 0, x2: 200, y1: HEIGHT * (1 - 1 / TOP),
    y2: HEIGHT * (1 - 1 / TOP) });
  const mark = shape("rect", { class: "rate-mark", y: 0, height: HEIGHT, width: 200 / STEPS });
  picture.append(mark, usual, area, line);
  const text = el("span", { className: "small soft" });
  const reset = el("button", { type: "button", className: "plain", textContent: "Constant",
    onclick: () => { shares.fill(1); draw(); send(); } });
  host.append(picture, el("div", { className: "line rate-foot" }, text, reset));

  function draw() {
    const points = shares.map((share, i) => [i * 200 / STEPS, HEIGHT * (1 - share / TOP)]);
    const path = points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}H${x + 200 / STEPS}`).join("");
    line.setAttribute("d", path);
    area.setAttribute("d", `${path}V${HEIGHT}H0Z`);
    mark.setAttribute("x", focus * 200 / STEPS);
    picture.setAttribute("aria-valuenow", shares[focus]);
    const from = num(focus * length / STEPS), at = num(rate * shares[focus]);
    picture.setAttribute("aria-valuetext", `from ${from} s: ${at} Mbit/s`);
    text.textContent = `from ${from} s: ${at} Mbit/s`;
    reset.hidden = shares.every(share => share === 1);
  }

  function send() {
    const changes = [];
    shares.forEach((share, i) => {
      if (i && share !== shares[i - 1] || !i && share !== 1) {
        changes.push(
          `{at: ${+(i * length / STEPS).toFixed(2)}s, `
          + `rate: ${Math.round(rate * share * 1000)}kbit}`);
      }
    });
    take(changes.length ? `[${changes.join(", ")}]` : "");
  }

  function point(event) {
    const box = picture.getBoundingClientRect();
    const step = Math.max(0, Math.min(STEPS - 1,
      Math.floor((event.clientX - box.left) / box.width * STEPS)));
    const share = TOP * (1 - (event.clientY - box.top) / box.height);
    focus = step;
    shares[step] = Math.max(0.05, Math.min(TOP, Math.round(share * 20) / 20));
    draw();
  }

  picture.addEventListener("pointerdown", event => { drawing = true;
    picture.setPointerCapture(event.pointerId); point(event); });
  picture.addEventListener("pointermove", event => { if (drawing) point(event); });
  picture.addEventListener("pointerup", () => { if (drawing) { drawing = false; send(); } });
  picture.addEventListener("keydown", event => {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], by = { ArrowUp: 0.1,
      ArrowDown: -0.1 }[event.key];
    if (!along && !by) return;
    event.preventDefault();
    if (along) focus = Math.max(0, Math.min(STEPS - 1, focus + along));
    if (by) shares[focus] = +Math.max(0.05, Math.min(TOP, shares[focus] + by)).toFixed(2);
    draw();
    if (by) send();
  });

  return {
    // Take the steps of a question: of changes that this curve wrote, or could have.
    show(changes, rateMbit, lengthS) {
      if (drawing) return;
      rate = rateMbit || rate;
      length = lengthS;
      shares = new Array(STEPS).fill(1);
      for (const [, at, value, unit] of (changes
        || "").matchAll(/at: ([\d.]+)s, rate: ([\d.]+)([kmg]?)bit/g)) {
        const share = value * { "": 1e-6, k: 1e-3, m: 1, g: 1e3 }[unit] / rate;
        shares.fill(Math.max(0.02, share), Math.max(0, Math.round(at / length * STEPS)));
      }
      draw();
    },
  };
}

// SPDX-License-Identifier: MIT
// One colour per congestion control, as everywhere in the lab; a second flow of one control has its
// kin. On dark paper a colour is mixed with white until it can be read there.

import { isDark } from "./dom.js";

const PAPER = { light: "#ffffff", dark: "#14171b" };
const MIN_CONTRAST = 3.2, MIN_TEXT_CONTRAST = 4.6, MIN_BRIGHT = 5.6;
const INK = { light: "#1b1e23", dark: "#e7e9ec" };
let byControl = {};

export function declareColours(controls) {
  byControl = Object.fromEntries(controls.map(control => [control.name, control.colour]));
}

const parts = colour => [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
const mix = (a, b, share) => "#" + parts(a).map((x, i) =>
  Math.round(share * x + (1 - share) * parts(b)[i]).toString(16).padStart(2, "0")).join("");

function luminance(colour) { // WCAG 2.2
  const [r, g, b] = parts(colour).map(x => x / 255)
    .map(x => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function readable(colour, least) {
  const paper = isDark() ? PAPER.dark : PAPER.light, towards = isDark() ? "#ffffff" : "#000000";
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = mix(towards, colour, share);
    if (contrast(mixed, paper) >= least) return mixed;
  }
  return towards;
}

// The colours of a run's flows: [{name, cc, kind}] to a list.
export function coloursOf(flows) {
  const seen = {};
  return flows.map(flow => {
    const base = flow.cc && byControl[flow.cc.replace(/\(.*/, "")];
    if (!base) {
      seen.plain = (seen.plain || 0) + 1;
      return mix(isDark() ? INK.dark : INK.light, "#8b929c", seen.plain > 1 ? 0.25 : 1);
    }
    const before = seen[flow.cc] = (seen[flow.cc] || 0) + 1;
    const kin = before === 1 ? base : mix(isDark() ? "#000000" : "#ffffff", base, 0.18 * before);
    return readable(kin, isDark() ? (before === 1 ? MIN_BRIGHT : MIN_CONTRAST) : 1.9);
  });
}

export const inkOf = colour => readable(colour, MIN_TEXT_CONTRAST);
export const alpha = (colour, share) =>
  colour + Math.round(share * 255).toString(16).padStart(2, "0");

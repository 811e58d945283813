// SPDX-License-Identifier: MIT
// Small helpers: elements, numbers as text, colours of the page.

export const $ = id => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const css = name =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => css("--dark") === "1";
export const prefersStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const NB = "\u00a0";

// Three significant digits, thousands apart.
export function num(x) {
  if (x == null) return "–";
  if (x === 0) return "0";
  if (Math.abs(x) >= 100) return Math.round(x).toLocaleString("en").replace(/,/g, "\u2009");
  return String(+x.toPrecision(3));
}

export const percent = x => Math.round(x * 100) + NB + "%";
export const ms = x => (x >= 10 ? num(Math.round(x)) : +x.toPrecision(2)) + NB + "ms";

export function median(values) {
  const sorted = values.filter(x => x != null).sort((a, b) => a - b);
  const n = sorted.length;
  if (!n) return null;
  return n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

export function save(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}

// Numbers and names as the page writes them.

// clock is a moment of the run, to the microsecond.
export function clock(ns, digits = 6) {
  return (ns / 1e9).toFixed(digits) + " s";
}

// length is a length of time with the unit that suits it.
export function length(ns) {
  const a = Math.abs(ns);
  if (a < 1e3) return `${Math.round(ns)} ns`;
  if (a < 1e6) return `${trim(ns / 1e3)} µs`;
  if (a < 1e9) return `${trim(ns / 1e6)} ms`;
  return `${trim(ns / 1e9)} s`;
}

const trim = n => String(Number(n.toPrecision(3)));

const english = new Intl.NumberFormat("en");
export const count = n => english.format(n);

// plural says how many there are of something.
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// speed is a speed as people say it.
export function speed(x) {
  if (x === 1) return "real time";
  return x > 1 ? `${trim(x)} × faster` : `${trim(1 / x)} × slower`;
}

// ticks are round times between two moments, at most that many, and their distance.
export function ticks(from, until, most) {
  const raw = (until - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= raw);
  const all = [];
  for (let t = Math.ceil(from / step) * step; t <= until; t += step) all.push(t);
  return {all, step};
}

// tick is a round time, with the digits that its step needs.
export function tick(t, step) {
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / 1e9) + 1e-9)));
  return (t / 1e9).toFixed(digits) + " s";
}

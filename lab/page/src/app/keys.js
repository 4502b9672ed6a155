// What the keyboard does, as the help shows it and the page obeys it.
import {useEffect} from "./html.js";
import {elections, speed, step, toggle, violations} from "./moment.js";
import {jump, reset} from "./transport.js";

const faster = by => {
  const power = Math.max(-3, Math.min(2, Math.log10(speed.value) + by));
  speed.value = Number((10 ** power).toPrecision(2));
};

export const keys = [
  {key: " ", name: "Space", says: "play, or pause", act: toggle},
  {key: "ArrowRight", name: "→", says: "one event on", act: () => step(1)},
  {key: "ArrowLeft", name: "←", says: "one event back", act: () => step(-1)},
  {key: "ArrowRight", shift: true, name: "Shift →", says: "the next turn: a leader, a fault, a violation", act: () => jump(false, null, "turn")},
  {key: "ArrowLeft", shift: true, name: "Shift ←", says: "the turn before", act: () => jump(true, null, "turn")},
  {key: "e", name: "E", says: "the next election", act: () => jump(false, elections, "election")},
  {key: "v", name: "V", says: "the next violation", act: () => jump(false, violations, "violation")},
  {key: "+", name: "+", says: "faster", act: () => faster(0.5)},
  {key: "-", name: "−", says: "slower", act: () => faster(-0.5)},
  {key: "r", name: "R", says: "begin anew, without what you did", act: reset},
  {key: "w", name: "W", says: "choose a world", act: page => page.choose()},
  {key: "c", name: "C", says: "compare protocols", act: page => page.compare()},
  {key: "?", name: "?", says: "show this help, or close it", act: page => page.help()},
];

// useKeys obeys the keyboard, where nothing else that has the focus wants the key.
export function useKeys(page) {
  useEffect(() => {
    const pressed = e => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
      const own = e.target.closest?.("input, select, textarea, [role=slider]");
      const open = document.querySelector("dialog[open]");
      if (own || open && e.key !== "?" || e.key === " " && e.target.closest?.("button, a, summary")) return;
      const k = e.key.length === 1 ? e.key.toLowerCase() : e.key;
      const found = keys.find(({key, shift}) => key === k && (e.key.length === 1 || Boolean(shift) === e.shiftKey));
      if (!found) return;
      e.preventDefault();
      found.act(page);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

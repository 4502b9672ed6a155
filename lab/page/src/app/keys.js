// What the keyboard does, as the help shows it and the page obeys it.
import {useEffect} from "./html.js";
import {elections, speed, step, toggle, violations} from "./moment.js";
import {jump, reset} from "./transport.js";
import {storyKeys} from "./story.js";
import {leave} from "./start.js";

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
  ...storyKeys,
  {key: "w", name: "W", says: "choose a world", act: page => page.choose()},
  {key: "c", name: "C", says: "compare protocols", act: page => page.compare()},
  {key: "?", name: "?", says: "show this help, or close it", act: page => page.help()},
];

// taken reports whether what has the focus wants the key.
function taken(key, target) {
  if (!(target instanceof Element)) return false;
  if (target.matches("input:not([type=range], [type=checkbox], [type=radio]), select, textarea")) return true;
  if (key === " ") return Boolean(target.closest("button, a, summary, [type=checkbox], [type=radio]"));
  return /^(Arrow|Home|End|Page)/.test(key) && target.matches("[type=range], [type=radio], [role=slider]");
}

// A button that was clicked with a pointer gives the focus back: the next Space is to play, and not to press it again.
const clicked = e => { if (e.detail > 0) e.target.closest?.("main button, header button")?.blur(); };

// useKeys obeys the keyboard, where nothing else that has the focus wants the key.
export function useKeys(page, all = keys) {
  useEffect(() => {
    const pressed = e => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || taken(e.key, e.target)) return;
      if (document.querySelector("dialog[open]") && e.key !== "?") return;
      const k = e.key.length === 1 ? e.key.toLowerCase() : e.key;
      const found = all.find(({key, shift, when}) => key === k && (e.key.length === 1 || Boolean(shift) === e.shiftKey) && (!when || when()));
      if (!found) return;
      e.preventDefault();
      if (k !== "?") leave();
      found.act(page);
    };
    addEventListener("keydown", pressed);
    addEventListener("click", clicked);
    return () => {
      removeEventListener("keydown", pressed);
      removeEventListener("click", clicked);
    };
  }, []);
}

// The line of the moment over the lanes: it moves, and they need not be drawn anew.
import {html, useRef, useSignalEffect} from "./html.js";
import {left} from "./lanesdraw.js";

// Needle follows the signal at, within the signal range.
export function Needle({range, at}) {
  const needle = useRef();
  useSignalEffect(() => {
    const {from, until} = range.value, part = (at.value - from) / (until - from), style = needle.current.style;
    style.left = `calc(${left}px + ${part} * (100% - ${left}px))`;
    style.visibility = part < 0 || part > 1 ? "hidden" : "visible";
  });
  return html`<div class="needle" ref=${needle}></div>`;
}

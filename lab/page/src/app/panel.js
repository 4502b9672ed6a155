// The frame of a panel: a title, tools, what is within, and the same as a table, where it is a drawing.
import {html, names, useSignal} from "./html.js";

export const Panel = ({id, title, tools, children, wide}) => html`
  <section class=${names("panel", wide && "wide")} id=${id} aria-labelledby=${id + "-title"}>
    <div class="panel-head"><h2 id=${id + "-title"}>${title}</h2><div class="tools">${tools}</div></div>
    ${children}
  </section>`;

// Drawn is a panel with a drawing and a table that says the same. The table is there for screen readers at all times; its
// component is told whether it is shown to all.
export function Drawn({table: Twin, children, tools, ...rest}) {
  const shown = useSignal(false);
  const button = html`<button type="button" class="quiet" aria-pressed=${String(shown.value)}
    onClick=${() => { shown.value = !shown.value; }}>Table</button>`;
  return html`
    <${Panel} ...${rest} tools=${[tools, button]}>
      <div hidden=${shown.value}>${children}</div>
      <div class=${shown.value ? "scroll" : "unseen"} tabindex=${shown.value ? "0" : undefined} role="region" aria-label=${`${rest.title}, as a table`}><${Twin} shown=${shown.value} /></div>
    <//>`;
}

// Table is a table of cells; what head and rows hold may be text or elements.
export const Table = ({caption, head, rows}) => html`
  <table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${head.map(c => html`<th scope="col">${c}</th>`)}</tr></thead>
    <tbody>${rows.map(([first, ...cells]) => html`<tr><th scope="row">${first}</th>${cells.map(c => html`<td>${c}</td>`)}</tr>`)}</tbody>
  </table>`;

// Button is a button with a mark and a name.
export const Button = ({mark, name, ...rest}) => html`
  <button type="button" title=${name} aria-label=${name} ...${rest}>${mark}</button>`;

// Term is the badge of a term.
export const Term = ({letter, colour}) => letter && html`<span class=${`term t${colour}`} aria-label=${`term ${letter}`}>${letter}</span>`;

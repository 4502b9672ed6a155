// The line that says how the machines are.
import {html} from "./html.js";

const size = bytes => `${(bytes / 1e6).toFixed(1)} MB`;

export function Status({machines}) {
  const {phase, loaded, total, error} = machines.state.value;
  switch (phase) {
    case "loading":
      return html`
        <p id="status" role="status">Loading the machines</p>
        ${total > 0 && html`<progress aria-label="Machines loaded" max=${total} value=${loaded}></progress>`}
        <p>${size(loaded)}${total > 0 && ` of ${size(total)}`}</p>`;
    case "starting":
      return html`<p id="status" role="status">Starting the machines</p>`;
    case "ready":
      return html`<p id="status" role="status">The machines are ready.</p>`;
  }
  return html`<p id="status" role="alert">${error}</p>`;
}

// Machines besides those of the world that is shown: for what takes long, and must not keep that one waiting.
let opener = null;

// opens says how machines are started.
export const opens = open => { opener = open; };

// machines starts some more. Their close ends whatever they do.
export const machines = () => opener();

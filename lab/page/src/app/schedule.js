// Schedules as files: to keep, to give to the command line, and to open.
import {call} from "./run.js";

// save lets the browser save the schedule of the world that is shown, with what the visitor did.
export async function save(name) {
  const {schedule} = await call("schedule");
  const url = URL.createObjectURL(new Blob([schedule], {type: "application/json"}));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const largest = 4e6; // bytes

// read makes a world of a file. It throws an Error that says what is wrong with it.
export async function read(file) {
  if (file.size > largest) throw new Error(`${file.name} has ${file.size} bytes, and its first line is no header of a trace; want a trace, or a schedule of ${largest} bytes at most`);
  return scheduled(file.name, await file.text());
}

// scheduled makes a world of the text of a schedule.
export function scheduled(name, text) {
  let schedule;
  try {
    schedule = JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is no JSON: ${error.message}; want a schedule, as electlab sim writes it, or a trace`);
  }
  if (typeof schedule?.protocol !== "string" || typeof schedule.format !== "number") {
    throw new Error(`${name} is no schedule: it has no format or no protocol; want one as electlab sim writes it`);
  }
  // A number that was rounded would be another world; fractions are read as they were written.
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/\d[\d.eE+-]*/g) ?? [];
  const large = numbers.find(n => /^\d+$/.test(n) && !Number.isSafeInteger(Number(n)));
  if (large) throw new Error(`${name} has the number ${large}; want ${Number.MAX_SAFE_INTEGER} at most, which a browser does not round`);
  return {protocol: schedule.protocol, schedule};
}

import type { Drawing } from "./drawing.ts";

/** Signals that end the program, and what a shell adds to 128 to say which it was. */
const FATAL: Readonly<Partial<Record<NodeJS.Signals, number>>> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };

/**
 * Sees to it that the terminal is given back however the program ends or stops, and taken again when it goes on.
 * `forget` ends that.
 */
export function endWith(drawing: Drawing): { suspend: () => void; forget: () => void } {
  const end = (signal: NodeJS.Signals) => {
    drawing.end();
    process.exit(128 + (FATAL[signal] ?? 0));
  };
  const fatal = Object.keys(FATAL) as NodeJS.Signals[];
  const leave = () => drawing.end();
  /** With the handler gone the signal does what it always does. */
  const stop = (target: number) => {
    drawing.suspend();
    process.off("SIGTSTP", stopped);
    process.kill(target, "SIGTSTP");
  };
  const stopped = () => stop(process.pid);
  const continued = () => {
    process.on("SIGTSTP", stopped);
    drawing.resume();
  };
  for (const signal of fatal) process.on(signal, end);
  process.on("SIGTSTP", stopped);
  process.on("SIGCONT", continued);
  // Also where an error that nobody caught ends the program.
  process.on("exit", leave);
  return {
    // As the key does where no program asks for it: it stops whatever was started together with this one.
    suspend: () => stop(0),
    forget() {
      for (const signal of fatal) process.off(signal, end);
      process.off("SIGTSTP", stopped);
      process.off("SIGCONT", continued);
      process.off("exit", leave);
    },
  };
}

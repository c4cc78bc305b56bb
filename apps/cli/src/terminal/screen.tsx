import { type Instance, render, Text } from "ink";
import { useSyncExternalStore } from "react";

/** What is shown, as a terminal takes it, and who wants to know when it changes. */
export interface Painted {
  current: () => string;
  subscribe: (changed: () => void) => () => void;
}

/** Times a second that the screen is drawn at most. */
const FRAMES = 60;

/**
 * The whole screen is one text: it is laid out by then. A component for each line costs three times as much a key;
 * Ink's own `incrementalRendering` (6.8.0) is off by a line where the output is lower than the terminal.
 */
function Screen({ painted }: { painted: Painted }) {
  return <Text wrap="truncate-end">{useSyncExternalStore(painted.subscribe, painted.current)}</Text>;
}

/** Begins to draw; `unmount` ends it. */
export function drawScreen(painted: Painted, stdout: NodeJS.WriteStream): Pick<Instance, "unmount"> {
  return render(<Screen painted={painted} />, {
    stdout,
    exitOnCtrlC: false,
    patchConsole: false,
    maxFps: FRAMES,
  });
}

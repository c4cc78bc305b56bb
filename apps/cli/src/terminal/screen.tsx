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
 * The whole screen is one text: it is laid out by then, line by line, and Ink writes the lines that changed. (A
 * component for each line costs three times as much a key.)
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
    incrementalRendering: true,
    maxFps: FRAMES,
  });
}

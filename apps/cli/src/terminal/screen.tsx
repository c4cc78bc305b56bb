import { render, Text } from "ink";
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

/** Begins to draw; the function that it returns ends it, and nothing is written from then on. */
export function drawScreen(painted: Painted, stdout: NodeJS.WriteStream): () => void {
  let isOpen = true;
  // Ink writes its last frame when it ends, and sometimes later: that would stand on somebody else's screen.
  const output: NodeJS.WriteStream = Object.create(stdout, {
    write: { value: (text: string) => (isOpen ? stdout.write(text) : true) },
  });
  const { unmount } = render(<Screen painted={painted} />, {
    stdout: output,
    exitOnCtrlC: false,
    patchConsole: false,
    maxFps: FRAMES,
  });
  return () => {
    isOpen = false;
    unmount();
  };
}

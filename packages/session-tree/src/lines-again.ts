import type { ByteView } from "@espalier/jsonl-stream";

/** Gives bytes of lines again that were taken, by offset and length as they were taken. */
export type LinesAgain = Pick<ByteView, "read">;

import { parseEdits } from "./screenplay.mjs";

/** Milliseconds that a tool takes when the screenplay does not say. */
const DURATIONS = { read: 24, write: 31, edit: 38, search: 90, bash: 1_400 };

export const usualDuration = (tool) => DURATIONS[tool];

const READERS = {
  read: ({ words, options }) => ({
    path: words[1],
    ...(options.offset && { offset: Number(options.offset) }),
    ...(options.limit && { limit: Number(options.limit) }),
  }),
  write: ({ words, body }) => ({ path: words[1], content: `${body}\n` }),
  edit: ({ words, body }) => ({ path: words[1], edits: parseEdits(body) }),
  bash: ({ body }) => ({ command: body }),
  search: ({ words, body }) => ({ pattern: body, ...(words[1] && { path: words[1] }) }),
};

/** The arguments of the call that a direction `§ call tool …` stands for. */
export function callArguments(direction) {
  return READERS[direction.words[0]](direction);
}

/** What asks Ink whether a person looks at it. */
const CI = "CI";

/**
 * Ink and React, loaded when a screen is drawn and for nothing else. Ink draws nothing in a CI unless it is told that
 * this is none, and it asks while it is loaded; here stdout is a terminal, and somebody looks at it.
 */
export async function loadScreen(): Promise<typeof import("./screen.tsx")> {
  const before = process.env[CI];
  process.env[CI] = "false";
  try {
    return await import("./screen.tsx");
  } finally {
    if (before === undefined) delete process.env[CI];
    else process.env[CI] = before;
  }
}

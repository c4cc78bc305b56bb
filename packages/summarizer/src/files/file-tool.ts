/** What one call does to files: paths as the call names them. */
export interface TouchedFiles {
  read?: string[];
  /** Made, or replaced whole. */
  written?: string[];
  /** Changed in part, moved or deleted. */
  edited?: string[];
}

/**
 * What a tool declares about its arguments. A tool without such a value touches no files as far as anybody can tell.
 */
export interface FileTool {
  /** The name that calls carry, in any case. */
  name: string;
  /** Arguments come from a model and can be anything; `files` must take what it finds and not throw. */
  files(args: Readonly<Record<string, unknown>>): TouchedFiles;
}

/**
 * The tool that a call names: in any case, and behind the prefix of a tool server (`mcp__disk__read_file`). Of several
 * with one name the last one counts, so that a list can be extended by overriding.
 */
export function findFileTool(tools: readonly FileTool[], callName: string): FileTool | undefined {
  const wanted = callName.toLowerCase();
  return byName(tools, wanted) ?? byName(tools, wanted.slice(wanted.lastIndexOf("__") + 1).replace(/^_/, ""));
}

const byName = (tools: readonly FileTool[], wanted: string) =>
  tools.findLast(({ name }) => name.toLowerCase() === wanted);

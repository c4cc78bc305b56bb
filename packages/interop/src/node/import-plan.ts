import { resolve } from "node:path";
import type { SessionImporter, Surroundings } from "../import-draft.ts";
import { InteropError } from "../import-error.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import { agentOfFile, openOrNothing } from "./agent-of-file.ts";
import { type FoundFile, factsOf, findFiles } from "./found-file.ts";
import { type Environment, type LocalAgent, localAgents } from "./local-agent.ts";
import type { SourceFiles } from "./source-files.ts";

/** A file that will be read, or a place that could not be looked at. */
export interface PlannedFile {
  path: string;
  /** Why nothing can be read there. */
  problem?: InteropError;
  /** Undefined for a file that no importer knows, and for one that cannot be opened: reading it will say why. */
  importer: SessionImporter | undefined;
}

/**
 * Which files an import will read, and with which importer: those of an agent's own folders, those below a folder, or
 * one file.
 *
 * @throws InteropError `not-found`, `unreadable`
 */
export function planImport(
  what: string,
  files: SourceFiles,
  env: Environment,
  scratch: ScratchSpace,
): PlannedFile[] {
  const agent = localAgents.find((candidate) => candidate.agent === what);
  if (!agent) return planPath(resolve(what), files, scratch);
  const folders = agent.folders(env);
  const skipped = new SkippedPlaces();
  const found = folders.flatMap((folder) => findFiles(folder, agent.isSession, skipped.add));
  if (found.length > 0) return [...planAgent(agent, found, files, scratch), ...skipped.places];
  if (skipped.places.length > 0) return skipped.places;
  const message = `There are no sessions of ${what} in ${folders.join(" and ")}; give the path of a file or folder.`;
  throw new InteropError("not-found", message);
}

function planPath(path: string, files: SourceFiles, scratch: ScratchSpace): PlannedFile[] {
  if (!factsOf(path)) {
    const names = localAgents.map(({ agent }) => agent).join(", ");
    throw new InteropError(
      "not-found",
      `There is no file or folder ${path}; give a path, or one of ${names}.`,
    );
  }
  const skipped = new SkippedPlaces();
  const found = findFiles(path, (file) => localAgents.some((agent) => agent.isSession(file)), skipped.add);
  const [first] = skipped.places;
  if (first?.path === path) throw first.problem;
  const byAgent = new Map<LocalAgent | undefined, FoundFile[]>();
  for (const file of found) {
    const agent = agentOfFile(file.path, files);
    const own = byAgent.get(agent);
    if (own) own.push(file);
    else byAgent.set(agent, [file]);
  }
  const planned = [...byAgent].flatMap(([agent, own]) =>
    agent
      ? planAgent(agent, own, files, scratch)
      : own.map((file) => ({ path: file.path, importer: undefined })),
  );
  return [...planned, ...skipped.places];
}

/** Collects the places that could not be looked at. */
class SkippedPlaces {
  readonly places: PlannedFile[] = [];
  readonly add = (path: string, problem: InteropError): void => {
    this.places.push({ path, importer: undefined, problem });
  };
}

/** Files around those that are read are a help, and no more: what cannot be looked at there is not there. */
const nothingSaid = (): void => undefined;

function planAgent(
  agent: LocalAgent,
  found: readonly FoundFile[],
  files: SourceFiles,
  scratch: ScratchSpace,
): PlannedFile[] {
  const near = agent
    .surroundingsOf(found[0]!.path)
    .flatMap((place) => findFiles(place, agent.isSession, nothingSaid))
    .concat(found);
  const unique = [...new Map(near.map((file) => [file.path, file])).values()];
  const surroundings: Surroundings = {
    files: agent.inOrder(unique).map(({ path }) => path),
    open: (path) => openOrNothing(path, files),
    scratch,
  };
  const importer = agent.importer(surroundings);
  return agent.inOrder(found).map(({ path }) => ({ path, importer }));
}

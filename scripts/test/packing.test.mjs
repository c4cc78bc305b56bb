import { expect, test } from "vitest";
import { repositoryOf } from "../packages/assemble.mjs";

test("the packed manifest names the public address of the clone's origin, and nothing of who signs in there", () => {
  const repository = {
    type: "git",
    url: "git+https://code.example/garden/espalier.git",
    directory: "packages/espalier",
  };
  for (const remote of [
    "https://code.example/garden/espalier.git",
    "https://ada:secret@code.example/garden/espalier.git",
    "git@code.example:garden/espalier.git",
    "ssh://git@code.example:2222/garden/espalier.git",
  ])
    expect(repositoryOf(remote), remote).toEqual({ repository });
  for (const path of ["", "/srv/espalier", "../espalier", "file:///srv/espalier.git", "C:\\espalier"])
    expect(repositoryOf(path), path).toEqual({});
});

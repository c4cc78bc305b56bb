/** Who writes the headers of new sessions: this program, with the version of its packages. */
export const WRITER = "espalier/0.1.0";

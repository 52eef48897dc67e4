/* askpass.h - answering ssh's questions for a password or a passphrase */
#pragma once

/* Prints the answer to the question in argv[1], from the file that WIRE_ASKPASS names; 1 when it
 * has none, and ssh goes on without. */
int askpass_main(int argc, char **argv);

// Exit codes: one meaning each, the same in every command.
#pragma once

namespace moeplan {

enum class ExitCode {
  ok = 0,             // asked and answered
  no = 1,             // answered no: does not fit, fails, differs
  usage = 2,          // the command line is wrong
  input = 3,          // an input is unreadable or wrong
  no_device = 4,      // no usable GPU or driver
  limit = 5,          // refused: larger than a limit that a flag moves
  internal = 70,      // a bug
  interrupted = 130,  // by SIGINT, behind the last whole row
  terminated = 143,   // by SIGTERM, likewise
};

}  // namespace moeplan

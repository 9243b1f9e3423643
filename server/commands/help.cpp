#include "server/commands/help.h"

#include <sstream>

#include "config/print_reference.h"

namespace engramd::server {
namespace {

constexpr char kExitStatus[] =
    "EXIT STATUS\n"
    "  0    done\n"
    "  1    it could not be done: no model, a failed call, a lost reader; standard error says why\n"
    "  2    wrong command, flag, argument or configuration\n"
    "  130  interrupted\n";

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string flags_text(const std::vector<config::CommandFlag>& flags) {
  std::string text;
  for (const config::CommandFlag& flag : flags) {
    const std::string name = flag.name + (flag.value_name.empty() ? "" : " " + flag.value_name);
    text += "  " + name + "\n      " + flag.help + "\n";
  }
  return text;
}

std::string command_list() {
  std::string text;
  for (const Command& command : all_commands()) {
    text += "  " + padded(command.name, 10) + command.summary + "\n";
  }
  return text;
}

}  // namespace

std::string short_help() {
  return "engramd runs a language model with Engram conditional memory on this machine and serves "
         "it\n"
         "to MCP clients and to the shell.\n\n"
         "Commands:\n" +
         command_list() +
         "\nExamples:\n"
         "  engramd chat \"What is the capital of France?\"\n"
         "  engramd gates \"Only Alexander the Great could tame the horse Bucephalus.\"\n"
         "  claude mcp add --scope user engramd -- engramd --stdio\n\n"
         "engramd help COMMAND for one command, engramd --help for all options.\n";
}

std::string program_help() {
  std::string text =
      "NAME\n"
      "  engramd - a local daemon for language models with Engram conditional memory\n\n"
      "SYNOPSIS\n"
      "  engramd COMMAND [ARGUMENT...] [OPTION...]\n"
      "  engramd help COMMAND\n"
      "  engramd --version\n\n"
      "DESCRIPTION\n"
      "  Runs an Engram + Mixture-of-Experts language model on this machine and serves it over "
      "the\n"
      "  Model Context Protocol and from the shell. Without any configuration it opens the "
      "bundled\n"
      "  model.\n\n"
      "COMMANDS\n";
  text += command_list() + "\nOPTIONS\n" + config::print_option_help();
  text +=
      std::string("\n") + kExitStatus +
      "\nFILES\n"
      "  ~/.config/engramd/config.toml and the JSON files beside it: `engramd config --sample`\n"
      "  PREFIX/share/engramd/models: the bundled model\n"
      "\nENVIRONMENT\n"
      "  ENGRAMD_<KEY> for every option, ENGRAMD_CONFIG_DIR, XDG_CONFIG_HOME, NO_COLOR\n";
  return text;
}

std::string command_help(const Command& command) {
  return "NAME\n  engramd " + command.name + " - " + command.summary + "\n\nSYNOPSIS\n  engramd " +
         command.usage + "\n\nDESCRIPTION\n" + indented(command.description) + "\nFLAGS\n" +
         flags_text(command.flags) + flags_text(config::source_flags()) +
         "  and every option of `engramd --help`\n\nEXAMPLES\n" + indented(command.examples) +
         "\n" + kExitStatus;
}

}  // namespace engramd::server

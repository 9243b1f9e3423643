// References generated from the option table: the options part of --help, the sample file
// install/engramd.toml, and the README's option table (between the two markers). Pure text.
#pragma once

#include <string>
#include <string_view>

namespace engramd::config {

inline constexpr std::string_view kReadmeBegin = "<!-- options:begin -->";
inline constexpr std::string_view kReadmeEnd = "<!-- options:end -->";

std::string print_option_help();   // for man-style --help, wrapped to 80 columns
std::string print_sample_file();   // every key, commented out, at its default
std::string print_option_table();  // Markdown, without the markers

}  // namespace engramd::config

#pragma once
#include "core/trace/forms/text/text_form.hh"

#include <string>
#include <string_view>

namespace reprise::trace {

/// Why `cell` cannot stand in `column`: what it should be, and the nearest word where there is one.
std::string explain_cell(Column column, std::string_view cell);

} // namespace reprise::trace

#pragma once
#include "core/trace/forms/query_encoder.hh"

#include <memory>

namespace reprise::trace {

/// Queries as rows of the text form (text_form.hh).
std::unique_ptr<QueryEncoder> make_text_encoder();

} // namespace reprise::trace

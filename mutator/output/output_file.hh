#pragma once
// Where a trace is written to: a file that appears whole under its name, or a pipe.

#include "core/base/bytes.hh"
#include "core/base/fd.hh"
#include "mutator/output/output_path.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {

/// Unbuffered: what is written is on its way. Destroyed before finish(), it leaves no file behind.
/// Opening throws UsageError, writing throws Error naming the file.
class OutputFile {
public:
    /// "-" is standard output. `option` is the one that names the file, for error messages.
    explicit OutputFile(const std::string& path, std::string_view option = "-o");

    void write(std::string_view bytes);

    /// Closes, and gives the file its name.
    void finish();

    /// For error messages.
    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

private:
    [[noreturn]] void fail(int error_number) const;

    std::string name_;
    std::optional<OutputPath> path_;
    FileDescriptor file_;
    std::uint64_t bytes_ = 0;
};

} // namespace reprise::mutator

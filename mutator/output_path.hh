#pragma once
// Where a result goes: a file appears under its own name only once it is whole.

#include <string>

namespace reprise::mutator {

/// Work goes to "PATH.partial"; commit() renames it to PATH; without it the destructor removes it.
/// What is not a regular file (a pipe, a device) is written directly.
class OutputPath {
public:
    explicit OutputPath(std::string path);
    ~OutputPath();
    OutputPath(const OutputPath&) = delete;
    OutputPath& operator=(const OutputPath&) = delete;

    /// The name to write to until commit().
    [[nodiscard]] const std::string& working() const { return working_; }

    [[nodiscard]] const std::string& final_path() const { return path_; }

    /// Throws SystemError where the rename fails.
    void commit();

private:
    std::string path_;
    std::string working_;
    bool temporary_ = false;
};

/// The one-line usage error for an output that cannot be opened, from errno.
[[noreturn]] void throw_unwritable(const std::string& path, int error_number);

} // namespace reprise::mutator

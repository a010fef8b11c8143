// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=34}" --verify-diagnostics --split-input-file

// expected-error@unknown {{expected bytes that are a multiple of the 4 of an element, got 34}}
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}

// -----

// expected-error@unknown {{expected one dimension inner, or indices where rows have one element}}
func.func @gather(%data: memref<?xi16>, %indices: memref<?xi64>, %out: memref<?xi16>) {
  func.return
}

// -----

// expected-error@unknown {{expected a nest over memrefs; run lower-to-nest first}}
func.func @gather(%x: i64) {
  func.return
}

// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=inner sizes=8},prefetch{what=rows loop=indices}"

// The first element of a row is where the tiles of the row begin.
// CHECK: gather.loop indices(%i)
// CHECK: memref.prefetch %data[%{{.*}}, %position, %c0{{.*}}]
// CHECK: gather.loop inner_o(%j_o)
// CHECK: gather.loop inner_i(%j_i)
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}

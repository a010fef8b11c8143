// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=1 lines=0},stream-stores"

// A loop that also prefetches the next row has no parts beside it: its vectors are stored 16 bytes at a time.
// CHECK: gather.loop inner_head
// CHECK-NOT: _parts
// CHECK: vector.store %{{.*}} {alignment = 16 : i64, nontemporal = true}
// CHECK-NOT: _parts
// CHECK: gather.loop inner_rest
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
